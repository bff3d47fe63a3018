// Calls the host's log handler for the threads of the profiler. The handler may block: a pipe that
// nobody reads, a lock that another thread holds. The threads of the profiler must not wait for it,
// so a thread of its own makes the calls. It starts with the first call and ends with the last.
#pragma once

#include <cstdint>
#include <functional>

namespace sonde::base {

// Any thread. The calls are made in this order. Where no thread can be started, the caller makes
// the call itself. Beyond 256 that wait, the newest is dropped and counted.
void call_on_host_thread(std::function<void()> call);
// Any thread. Returns when the calls that were added before are made, or at the deadline by
// monotonic_ns(). On the host thread it returns at once.
void await_host_thread(std::uint64_t deadline_ns) noexcept;
// In a forked child, which does not have that thread.
void reset_host_thread_after_fork() noexcept;

}  // namespace sonde::base
