#include "engine/model/ending.h"

#include <string>
#include <string_view>

#include "engine/base/attr_names.h"
#include "engine/model/line.h"
#include "engine/model/trace.h"

namespace sonde::model {

std::string attr_text(const Span& span, std::string_view name) {
  std::string out;
  for (const char c : span.attr(name).text()) {
    if (c == '\n') {
      out += "\\n";
    } else {
      append_clean(out, {&c, 1});
    }
  }
  return out;
}

std::string exception_of(const Span& span) {
  std::string out = attr_text(span, base::kExceptionAttr);
  const std::string message = attr_text(span, base::kExceptionMessageAttr);
  if (!out.empty() && !message.empty()) out += ": " + message;
  return out;
}

namespace {

std::string ending_of_session(const Span& span, const std::string& how) {
  const std::string exception = exception_of(span);
  if (how == base::kEndedByException)
    return "ended by " + (exception.empty() ? "an exception" : exception);
  std::string out;
  if (how == base::kEndedBySignal) out = "ended by " + attr_text(span, base::kSignalAttr);
  if (how == base::kEndedByExit) {
    const std::string_view code = span.attr(base::kExitCodeAttr).raw();
    out = "exit code " + (code.empty() ? "not known" : std::string(code));
  }
  if (exception.empty()) return out;
  // The program goes on: the exception may have been caught.
  if (how == base::kEndedByShutdown) return "shut down after " + exception;
  return (out.empty() ? "uncaught " : out + ", uncaught ") + exception;
}

}  // namespace

std::string ending_of(const Span& span) {
  if (!span.parent_id) {
    if (const std::string how = attr_text(span, base::kEndedByAttr); !how.empty())
      return ending_of_session(span, how);
  }
  const std::string exception = exception_of(span);
  const std::string_view closed_by = span.closed_by();
  if (exception.empty()) return closed_by.empty() ? "" : "closed by " + std::string(closed_by);
  // After an exception, what closed the span matters only where its end is not known.
  return "ended by " + exception + (closed_by == base::kClosedByDeath ? ", closed by death" : "");
}

std::string how_it_ended(const Span& session) {
  if (std::string how = ending_of(session); !how.empty()) return how;
  const bool by_call = attr_text(session, base::kEndedByAttr) == base::kEndedByShutdown;
  return by_call ? "ended by the program" : "returned";
}

bool has_failed(const Span& session) {
  const std::string how = attr_text(session, base::kEndedByAttr);
  return how == base::kEndedByException || how == base::kEndedBySignal ||
         (how == base::kEndedByExit && session.attr(base::kExitCodeAttr).integer() != 0);
}

}  // namespace sonde::model
