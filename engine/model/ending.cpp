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
  if (how == "exception") return "ended by " + (exception.empty() ? "an exception" : exception);
  std::string out;
  if (how == "signal") out = "ended by " + attr_text(span, kSignalAttr);
  if (how == "exit") {
    const std::string_view code = span.attr(kExitCodeAttr).raw();
    out = "exit code " + (code.empty() ? "not known" : std::string(code));
  }
  if (exception.empty()) return out;
  // The program goes on: the exception may have been caught.
  if (how == "shutdown") return "shut down after " + exception;
  return (out.empty() ? "uncaught " : out + ", uncaught ") + exception;
}

}  // namespace

std::string ending_of(const Span& span) {
  if (!span.parent_id) {
    if (const std::string how = attr_text(span, kEndedByAttr); !how.empty())
      return ending_of_session(span, how);
  }
  const std::string exception = exception_of(span);
  const std::string_view closed_by = span.closed_by();
  if (exception.empty()) return closed_by.empty() ? "" : "closed by " + std::string(closed_by);
  // After an exception, what closed the span matters only where its end is not known.
  return "ended by " + exception + (closed_by == kClosedByDeath ? ", closed by death" : "");
}

std::string how_it_ended(const Span& session) {
  if (std::string how = ending_of(session); !how.empty()) return how;
  return attr_text(session, kEndedByAttr) == "shutdown" ? "ended by the program" : "returned";
}

bool has_failed(const Span& session) {
  const std::string how = attr_text(session, kEndedByAttr);
  return how == "exception" || how == "signal" ||
         (how == "exit" && session.attr(kExitCodeAttr).integer() != 0);
}

}  // namespace sonde::model
