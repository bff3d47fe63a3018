#include "engine/model/ending.h"

#include <algorithm>

#include "engine/model/line.h"

namespace sonde::model {

namespace {

// Behind a string that begins at `at`.
std::size_t skip_string(std::string_view json, std::size_t at) {
  for (++at; at < json.size() && json[at] != '"'; ++at) {
    if (json[at] == '\\') ++at;
  }
  return at + 1;
}

// Behind a value that begins at `at`: where its member ends.
std::size_t skip_value(std::string_view json, std::size_t at) {
  int depth = 0;
  while (at < json.size()) {
    const char c = json[at];
    if (c == '"') {
      at = skip_string(json, at);
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == ',' && depth == 0) break;
    ++at;
  }
  return at;
}

}  // namespace

std::string_view attr(const Span& span, std::string_view name) noexcept {
  const std::string_view json = span.attrs;
  for (std::size_t at = 0; at < json.size();) {
    const std::size_t key_end = std::min(skip_string(json, at), json.size());
    const std::size_t value = std::min(key_end + 1, json.size());
    const std::size_t end = std::min(skip_value(json, value), json.size());
    if (key_end - at == name.size() + 2 && json.substr(at + 1, name.size()) == name)
      return json.substr(value, end - value);
    at = end + 1;
  }
  return {};
}

std::string attr_text(const Span& span, std::string_view name) {
  std::string_view value = attr(span, name);
  if (value.size() < 2 || value.front() != '"') return {};
  value = value.substr(1, value.size() - 2);
  std::string plain;
  for (std::size_t i = 0; i < value.size(); ++i) {
    // Line breaks and the like stay escaped.
    if (value[i] == '\\' && i + 1 < value.size() && (value[i + 1] == '"' || value[i + 1] == '\\'))
      ++i;
    plain += value[i];
  }
  std::string out;
  append_clean(out, plain);
  return out;
}

std::string exception_of(const Span& span) {
  std::string out = attr_text(span, kExceptionAttr);
  const std::string message = attr_text(span, kExceptionMessageAttr);
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
    const std::string_view code = attr(span, kExitCodeAttr);
    out = "exit code " + (code.empty() ? "not known" : std::string(code));
  }
  if (exception.empty()) return out;
  // The program goes on; somebody may have caught it.
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
  // Who closed it after that matters only where its end is not known.
  return "ended by " + exception + (closed_by == "death" ? ", closed by death" : "");
}

}  // namespace sonde::model
