// A wake-up that may be raised from any thread and from a signal handler: one atomic and a futex,
// no lock that an interrupted thread could be holding.
#pragma once

#include <atomic>
#include <cstdint>

namespace sonde::base {

class Event {
 public:
  // Any thread, any signal handler. Costs a system call only when a thread waits.
  void raise() noexcept;
  // Value to pass to wait: a raise after this reading ends the wait at once.
  std::uint32_t now() const noexcept { return count_.load(std::memory_order_acquire); }
  // Returns true when raised since `seen`, false after `timeout_ns`.
  bool wait(std::uint32_t seen, std::uint64_t timeout_ns) noexcept;

 private:
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace sonde::base
