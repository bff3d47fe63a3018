#include "engine/base/event.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

#include "engine/base/clock.h"

namespace sonde::base {

void Event::raise() noexcept {
  count_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&count_), FUTEX_WAKE_PRIVATE, INT_MAX,
            nullptr, nullptr, 0);
  }
}

bool Event::wait(std::uint32_t seen, std::uint64_t timeout_ns) noexcept {
  const std::uint64_t deadline = monotonic_ns() + timeout_ns;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (count_.load(std::memory_order_seq_cst) == seen) {
    const std::uint64_t now_ns = monotonic_ns();
    if (now_ns >= deadline) break;
    const std::uint64_t left = deadline - now_ns;
    const timespec timeout{static_cast<time_t>(left / 1'000'000'000u),
                           static_cast<long>(left % 1'000'000'000u)};
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&count_), FUTEX_WAIT_PRIVATE, seen,
            &timeout, nullptr, 0);
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  return count_.load(std::memory_order_seq_cst) != seen;
}

}  // namespace sonde::base
