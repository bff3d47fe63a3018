#include "engine/session/sink.h"

#include <string>
#include <string_view>

#include "engine/base/log.h"
#include "engine/base/swallowed.h"

namespace sonde::session {

void say_sink_failed(std::string_view name, std::string_view what) noexcept {
  try {
    const std::string place = std::string(name) + " sink";
    base::note_swallowed(place);
    base::log_once(base::LogLevel::kWarning, "flush", place,
                   "the " + std::string(name) + " sink failed (" + std::string(what) +
                       "): this batch may be missing there; later batches are still sent to it",
                   "fix what the error names");
  } catch (...) {
    // No memory for the message.
  }
}

}  // namespace sonde::session
