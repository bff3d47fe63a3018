#include "engine/session/signals.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "engine/record/journal.h"

namespace sonde::session {

namespace {

constexpr time_t kPatienceSeconds = 5;

std::atomic<bool> g_requested{false};
std::atomic<bool> g_watching{false};
record::Journal* g_journal = nullptr;
timer_t g_timer;
bool g_has_timer = false;
pid_t g_timer_pid = 0;  // timers do not survive fork

void restore_default() noexcept {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGTERM, &standard, nullptr);
}

// Nothing but what POSIX allows in a handler: atomics, a futex, timer_settime, sigaction, kill.
void on_terminate(int number) {
  const int saved = errno;
  if (!g_requested.exchange(true)) {
    // Should the drain thread be stuck (a dead network disk), the timer sends the signal again.
    const itimerspec patience = {{0, 0}, {kPatienceSeconds, 0}};
    if (g_has_timer) ::timer_settime(g_timer, 0, &patience, nullptr);
    g_journal->wake().raise();
  } else {
    restore_default();
    ::kill(::getpid(), number);  // delivered when this handler returns
  }
  errno = saved;
}

bool ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == on_terminate;
}

}  // namespace

void watch_termination() noexcept {
  // For the first process of a container the default action is to go on: nothing to prepare for.
  if (::getpid() == 1) return;
  struct sigaction current;
  if (::sigaction(SIGTERM, nullptr, &current) != 0 || (current.sa_flags & SA_SIGINFO) != 0 ||
      current.sa_handler != SIG_DFL)
    return;
  g_journal = &record::Journal::instance();
  g_requested.store(false);
  if (!g_has_timer) {
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGTERM;
    g_has_timer = ::timer_create(CLOCK_MONOTONIC, &event, &g_timer) == 0;
    g_timer_pid = ::getpid();
  }
  struct sigaction action = {};
  action.sa_handler = on_terminate;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  if (::sigaction(SIGTERM, &action, nullptr) == 0) g_watching.store(true);
}

void unwatch_termination() noexcept {
  if (!g_watching.exchange(false)) return;
  const bool owed = g_requested.load();
  forget_termination();
  if (owed) ::kill(::getpid(), SIGTERM);  // it came too late for the drain thread
}

void forget_termination() noexcept {
  g_watching.store(false);
  if (g_timer_pid != ::getpid()) g_has_timer = false;
  const itimerspec never = {};
  if (g_has_timer) ::timer_settime(g_timer, 0, &never, nullptr);
  g_requested.store(false);
  struct sigaction current;
  if (::sigaction(SIGTERM, nullptr, &current) == 0 && ours(current)) restore_default();
}

bool termination_requested() noexcept { return g_requested.load(); }

void die_by_termination() noexcept {
  restore_default();
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);  // the drain thread blocks everything else
  ::kill(::getpid(), SIGTERM);
  ::sleep(1);
  ::_exit(128 + SIGTERM);  // blocked in every thread, or traced away: the run is over all the same
}

}  // namespace sonde::session
