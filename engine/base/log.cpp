#include "engine/base/log.h"

#include <atomic>
#include <cstdio>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/face.h"
#include "engine/base/host_thread.h"
#include "engine/base/swallowed.h"
#include "engine/base/thread.h"

namespace sonde::base {

namespace {

std::atomic<LogHandler> g_handler{nullptr};

// Never destroyed: the drain thread may still log while the process runs its static destructors.
struct Spoken {
  std::mutex mutex;
  std::set<std::string, std::less<>> keys;
};
std::atomic<Spoken*>& spoken_place() {
  static std::atomic<Spoken*> place{new Spoken};
  return place;
}
Spoken& spoken() { return *spoken_place().load(); }

void tell_host(LogLevel level, const std::string& logger, const std::string& prefix,
               const std::string& text) {
  if (const LogHandler handler = g_handler.load()) {
    handler(level, logger, text);
  } else {
    std::fprintf(stderr, "%s%s\n", prefix.c_str(), text.c_str());
  }
}

}  // namespace

void set_log_handler(LogHandler handler) noexcept { g_handler.store(handler); }

void log_once(LogLevel level, std::string_view topic, std::string_view key, std::string text,
              std::string_view advice) noexcept {
  try {
    {
      const std::lock_guard lock(spoken().mutex);
      if (!spoken().keys.emplace(key).second) return;
    }
    const Face& face = base::face();
    advice = face.advise(key, advice);
    if (!advice.empty()) text.append("; ").append(advice);
    const auto tell = [level, logger = face.logger(topic), prefix = face.prefix(),
                       text = std::move(text)] { tell_host(level, logger, prefix, text); };
    if (t_does_engine_work) {
      call_on_host_thread(tell);
    } else {
      tell();
    }
  } catch (...) {
    // Out of memory while explaining trouble: silence is the only safe answer.
  }
}

void log_failure(std::string_view place, std::string_view key, std::string_view what_failed,
                 std::string_view exception, std::string_view advice) noexcept {
  note_swallowed(place);
  try {
    std::string text(what_failed);
    text.append(": ").append(exception);
    log_once(LogLevel::kWarning, "flush", key, std::move(text), advice);
  } catch (...) {
    // There is no memory for the message.
  }
}

void reset_log() noexcept {
  const std::lock_guard lock(spoken().mutex);
  spoken().keys.clear();
}

void reset_log_after_fork() noexcept { spoken_place().store(new Spoken); }

}  // namespace sonde::base
