// Threads that wait for a flush, and the thread that serves them.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/base/clock.h"
#include "engine/base/event.h"

namespace sonde::session {

// Any thread may call any of it.
class FlushRequests {
 public:
  // The number of a new request.
  std::uint64_t add() noexcept { return requested_.fetch_add(1) + 1; }
  std::uint64_t newest() const noexcept { return requested_.load(); }
  bool pending() const noexcept { return done_.load() < requested_.load(); }

  // The requests up to this number are served.
  void finish(std::uint64_t number) noexcept {
    done_.store(number);
    served_.raise();
  }
  // The session is over: no request has to wait any more.
  void finish_all() noexcept { finish(~std::uint64_t{0}); }

  // Returns when the request is served, or after that time.
  void await(std::uint64_t number, std::uint64_t patience_ns) noexcept {
    const std::uint64_t deadline = base::monotonic_ns() + patience_ns;
    for (;;) {
      const std::uint32_t seen = served_.now();
      const std::uint64_t now = base::monotonic_ns();
      if (done_.load() >= number || now >= deadline) return;
      served_.wait(seen, deadline - now);
    }
  }

 private:
  std::atomic<std::uint64_t> requested_{0}, done_{0};
  base::Event served_;
};

}  // namespace sonde::session
