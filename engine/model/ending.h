// How a span ended, from its attributes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/model/trace.h"

namespace sonde::model {

// Text is as the program gave it, with line breaks and control characters.
struct Ending {
  enum class Kind {
    kReturned,   // by its own code, or it is still open; of a session: the program returned
    kShutDown,   // a session: the program ended it
    kExit,       // a session: exit_code
    kSignal,     // a session: signal
    kException,  // exception, message
    kClosed,     // something else closed it: closed_by
  };
  Kind kind = Kind::kReturned;
  std::optional<std::int64_t> exit_code;  // none: not known
  std::string signal;
  // The exception that passed through the span. In a session that did not end by it: one that was
  // not caught, or was being raised then.
  std::string exception, message;
  std::string closed_by;  // "parent", "death", ...; empty where a session says how it ended

  // Anything but a span that ended by itself, or a session whose program returned or ended it.
  bool unusual() const noexcept {
    return (kind != Kind::kReturned && kind != Kind::kShutDown) || !exception.empty();
  }
  // Of a session: by an exception, a signal or an exit code that is not 0.
  bool failed() const noexcept {
    return kind == Kind::kException || kind == Kind::kSignal ||
           (kind == Kind::kExit && exit_code.value_or(0) != 0);
  }
};

Ending ending_of(const Span& span);

}  // namespace sonde::model
