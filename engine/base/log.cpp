#include "engine/base/log.h"

#include <atomic>
#include <cstdio>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "engine/base/face.h"

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
    if (const LogHandler handler = g_handler.load()) {
      handler(level, face.logger(topic), text);
    } else {
      std::fprintf(stderr, "%s%s\n", face.prefix().c_str(), text.c_str());
    }
  } catch (...) {
    // Out of memory while explaining trouble: silence is the only safe answer.
  }
}

void reset_log() noexcept {
  const std::lock_guard lock(spoken().mutex);
  spoken().keys.clear();
}

void reset_log_after_fork() noexcept { spoken_place().store(new Spoken); }

}  // namespace sonde::base
