// How far a thread has come with its tasks, for the threads that wait for it.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/base/clock.h"
#include "engine/base/event.h"

namespace sonde::base {

// Any thread may call any of it.
class Progress {
 public:
  // The number of a new task. Tasks are done in the order of their numbers.
  std::uint64_t add() noexcept { return added_.fetch_add(1) + 1; }
  std::uint64_t newest() const noexcept { return added_.load(); }
  bool pending() const noexcept { return done_.load() < added_.load(); }

  // The tasks up to this number are done.
  void finish(std::uint64_t number) noexcept {
    std::uint64_t done = done_.load();
    while (done < number && !done_.compare_exchange_weak(done, number)) {
    }
    moved_.raise();
  }
  // It is over: no thread has to wait any more.
  void finish_all() noexcept { finish(~std::uint64_t{0}); }

  // Returns when the task is done, or at the deadline by monotonic_ns(). After one wait has timed
  // out, further waits return at once until another task is done, so a stuck thread is waited for
  // only once. True: the task is done.
  bool await(std::uint64_t number, std::uint64_t deadline_ns) noexcept {
    for (;;) {
      const std::uint32_t seen = moved_.now();
      const std::uint64_t done = done_.load();
      if (done >= number) return true;
      if (stuck_at_.load() == done) return false;
      const std::uint64_t now = monotonic_ns();
      if (now >= deadline_ns) {
        if (deadline_ns != 0) stuck_at_.store(done);
        return false;
      }
      moved_.wait(seen, deadline_ns - now);
    }
  }
  bool await_all(std::uint64_t deadline_ns) noexcept { return await(newest(), deadline_ns); }

 private:
  static constexpr std::uint64_t kNotStuck = ~std::uint64_t{0};

  std::atomic<std::uint64_t> added_{0}, done_{0}, stuck_at_{kNotStuck};
  Event moved_;
};

}  // namespace sonde::base
