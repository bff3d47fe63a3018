// Ending a run that is told to end. Only a signal nobody handles is touched: a handler of the host's stays
// the host's, and SIGINT is Python's business (KeyboardInterrupt, then the exit handlers).
#pragma once

namespace sonde::session {

// Installs the SIGTERM handler if the action is the default one. Any thread.
void watch_termination() noexcept;
// Takes it out again, unless somebody installed another one since.
void unwatch_termination() noexcept;
// In a forked child: gives the default action back.
void forget_termination() noexcept;

// Set by the handler, which then waits (bounded) for the drain thread to say that all is written.
bool termination_requested() noexcept;
void termination_done() noexcept;

}  // namespace sonde::session
