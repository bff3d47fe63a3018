#include "engine/report/ending.h"

#include <string>
#include <string_view>

#include "engine/base/attr_names.h"
#include "engine/line/line.h"
#include "engine/model/ending.h"
#include "engine/model/trace.h"

namespace sonde::report {

using Kind = model::Ending::Kind;

std::string on_one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      line::append_clean(out, {&c, 1});
    }
  }
  return out;
}

std::string exception_text(const model::Ending& ending) {
  std::string out = on_one_line(ending.exception);
  if (!out.empty() && !ending.message.empty()) out += ": " + on_one_line(ending.message);
  return out;
}

namespace {

// What a session says of its end, apart from an exception.
std::string session_words(const model::Ending& ending) {
  if (ending.kind == Kind::kSignal) return "ended by " + on_one_line(ending.signal);
  if (ending.kind != Kind::kExit) return {};
  return "exit code " + (ending.exit_code ? std::to_string(*ending.exit_code) : "not known");
}

// What ended by the exception. What closed the span then matters only where its end is not known.
std::string exception_words(const model::Ending& ending, const std::string& exception) {
  return "ended by " + (exception.empty() ? "an exception" : exception) +
         (ending.closed_by == base::kClosedByDeath ? ", closed by death" : "");
}

}  // namespace

std::string ending_text(const model::Ending& ending) {
  if (!ending.unusual()) return {};
  const std::string exception = exception_text(ending);
  if (ending.kind == Kind::kException) return exception_words(ending, exception);
  if (ending.kind == Kind::kClosed) return "closed by " + ending.closed_by;
  std::string words = session_words(ending);
  if (exception.empty()) return words;
  // The program goes on: the exception may have been caught.
  if (ending.kind == Kind::kShutDown) return "shut down after " + exception;
  return (words.empty() ? "uncaught " : words + ", uncaught ") + exception;
}

std::string session_ending_text(const model::Ending& ending) {
  if (std::string how = ending_text(ending); !how.empty()) return how;
  return ending.kind == Kind::kShutDown ? "ended by the program" : "returned";
}

}  // namespace sonde::report
