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
constexpr int kSignals[] = {SIGTERM, SIGHUP};

std::atomic<int> g_requested{0};  // the first that came
std::atomic<bool> g_watching{false};
record::Journal* g_journal = nullptr;

// Sends the signal again if the drain thread is stuck.
struct Timer {
  timer_t id = {};
  int number = 0;  // the signal; 0: there is no timer
  pid_t pid = 0;   // timers do not survive fork
};
Timer g_timer;

void on_terminate(int number);

bool ours(int number) noexcept {
  struct sigaction current;
  return ::sigaction(number, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) == 0 &&
         current.sa_handler == on_terminate;
}

bool is_default(int number) noexcept {
  struct sigaction current;
  return ::sigaction(number, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) == 0 &&
         current.sa_handler == SIG_DFL;
}

void restore_default() noexcept {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (const int number : kSignals) {
    if (ours(number)) ::sigaction(number, &standard, nullptr);
  }
}

void set_timer(time_t seconds) noexcept {
  const itimerspec value = {{0, 0}, {seconds, 0}};
  if (g_timer.number != 0) ::timer_settime(g_timer.id, 0, &value, nullptr);
}

// Nothing but what POSIX allows in a handler: atomics, a futex, timer_settime, sigaction, kill.
void on_terminate(int number) {
  const int saved = errno;
  int first = 0;
  if (g_requested.compare_exchange_strong(first, number)) {
    // Should the drain thread be stuck (a dead network disk), the timer sends the signal again.
    set_timer(kPatienceSeconds);
    g_journal->wake().raise();
  } else {
    restore_default();
    ::kill(::getpid(), first);  // delivered when this handler returns
  }
  errno = saved;
}

void make_timer(int number) noexcept {
  if (g_timer.number == number) return;
  if (g_timer.number != 0) ::timer_delete(g_timer.id);
  sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = number;
  const bool made = ::timer_create(CLOCK_MONOTONIC, &event, &g_timer.id) == 0;
  g_timer.number = made ? number : 0;
  g_timer.pid = ::getpid();
}

}  // namespace

void watch_termination() noexcept {
  // For the first process of a container the default action is to go on: nothing to prepare for.
  if (::getpid() == 1) return;
  struct sigaction action = {};
  action.sa_handler = on_terminate;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  bool prepared = false;
  for (const int number : kSignals) {
    if (!is_default(number)) continue;
    if (!prepared) {
      g_journal = &record::Journal::instance();
      g_requested.store(0);
      make_timer(number);
      prepared = true;
    }
    if (::sigaction(number, &action, nullptr) == 0) g_watching.store(true);
  }
}

void unwatch_termination() noexcept {
  if (!g_watching.exchange(false)) return;
  const int owed = g_requested.load();
  forget_termination();
  if (owed != 0) ::kill(::getpid(), owed);  // it came too late for the drain thread
}

void forget_termination() noexcept {
  g_watching.store(false);
  if (g_timer.pid != ::getpid()) g_timer.number = 0;
  set_timer(0);
  g_requested.store(0);
  restore_default();
}

int termination_requested() noexcept { return g_requested.load(); }

void die_by_termination() noexcept {
  const int number = g_requested.load();
  restore_default();
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);  // the drain thread blocks everything else
  ::kill(::getpid(), number);
  ::sleep(1);
  ::_exit(128 + number);  // blocked in every thread, or traced away: the run is over all the same
}

}  // namespace sonde::session
