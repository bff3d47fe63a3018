// Ends a run that gets a termination signal. Only a signal with the default action is handled: a
// handler of the host stays in place, and SIGINT is left to Python (KeyboardInterrupt, then the
// exit handlers).
#pragma once

#include <cstdint>

namespace sonde::session {

// Handles SIGTERM and SIGHUP, each where its action is the default one. Any thread.
void watch_termination() noexcept;
// Removes the handlers, except where the host has installed another one since.
void unwatch_termination() noexcept;
// In a forked child: gives the default action back.
void forget_termination() noexcept;

// The signal that came first; 0: none. The handler notes it, wakes the drain thread and returns:
// the interrupted thread may hold any lock, the GIL among them, and has to go on for the drain
// thread to finish. That thread then ends the process by the same signal. Another SIGTERM, or five
// seconds, end it at once.
int termination_requested() noexcept;
// When all waiting has to end after such a signal (base::monotonic_ns). That is before those five
// seconds are over, so that what was waited for can still be written.
std::uint64_t termination_deadline_ns() noexcept;
[[noreturn]] void die_by_termination() noexcept;

}  // namespace sonde::session
