#include "engine/session/signals.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "engine/base/clock.h"
#include "engine/record/journal.h"

namespace sonde::session {

namespace {

constexpr time_t kPatienceSeconds = 5;
constexpr std::uint64_t kForWaitingNs = 4'000'000'000;

std::atomic<int> g_requested{0};  // the first signal that came
std::atomic<std::uint64_t> g_requested_ns{0};
std::atomic<bool> g_watching{false};
record::Journal* g_journal = nullptr;

// A signal, and the timer that sends it again if the drain thread is stuck.
struct Watched {
  int number;
  timer_t timer = {};
  bool has_timer = false;
};
Watched g_signals[] = {{SIGTERM}, {SIGHUP}};
pid_t g_timers_pid = 0;  // timers do not survive fork

void on_terminate(int number, siginfo_t* info, void*);

bool ours(int number) noexcept {
  struct sigaction current;
  return ::sigaction(number, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) != 0 &&
         current.sa_sigaction == on_terminate;
}

bool is_default(int number) noexcept {
  struct sigaction current;
  return ::sigaction(number, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) == 0 &&
         current.sa_handler == SIG_DFL;
}

void restore_default() noexcept {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (const Watched& each : g_signals) {
    if (ours(each.number)) ::sigaction(each.number, &standard, nullptr);
  }
}

void set_timer(const Watched& watched, time_t seconds) noexcept {
  const itimerspec value = {{0, 0}, {seconds, 0}};
  if (watched.has_timer) ::timer_settime(watched.timer, 0, &value, nullptr);
}

// Nothing but what POSIX allows in a handler: atomics, a futex, clock_gettime, timer_settime,
// sigaction, kill.
void on_terminate(int number, siginfo_t* info, void*) {
  const int saved = errno;
  int first = 0;
  const std::uint64_t now = base::monotonic_ns();
  if (g_requested.compare_exchange_strong(first, number)) {
    g_requested_ns.store(now);
    // Should the drain thread be stuck (a dead network disk), the timer sends the signal again.
    for (const Watched& each : g_signals) {
      if (each.number == number) set_timer(each, kPatienceSeconds);
    }
    g_journal->wake().raise();
  } else if (number == SIGTERM || info->si_code == SI_TIMER) {
    restore_default();
    ::kill(::getpid(), first);  // delivered when this handler returns
  }  // SIGHUP comes twice when a terminal closes, from the shell and from the kernel
  errno = saved;
}

void make_timer(Watched& watched) noexcept {
  if (watched.has_timer) return;
  sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = watched.number;
  watched.has_timer = ::timer_create(CLOCK_MONOTONIC, &event, &watched.timer) == 0;
  g_timers_pid = ::getpid();
}

void disarm_timers() noexcept {
  for (Watched& each : g_signals) {
    if (g_timers_pid != ::getpid()) each.has_timer = false;
    set_timer(each, 0);
  }
}

}  // namespace

void watch_termination() noexcept {
  // The kernel ignores these signals for the first process of a container.
  if (::getpid() == 1) return;
  struct sigaction action = {};
  action.sa_sigaction = on_terminate;
  action.sa_flags = SA_RESTART | SA_ONSTACK | SA_SIGINFO;
  for (Watched& each : g_signals) {
    if (!is_default(each.number)) continue;
    if (!g_watching.exchange(true)) {
      g_journal = &record::Journal::instance();
      g_requested.store(0);
      g_requested_ns.store(0);
    }
    make_timer(each);
    ::sigaction(each.number, &action, nullptr);
  }
}

void unwatch_termination() noexcept {
  if (!g_watching.exchange(false)) return;
  restore_default();  // first: a signal that comes from here on ends the process by itself
  const int owed = g_requested.exchange(0);
  disarm_timers();
  if (owed != 0) ::kill(::getpid(), owed);  // it came too late for the drain thread
}

void forget_termination() noexcept {
  g_watching.store(false);
  restore_default();
  disarm_timers();
  g_requested.store(0);
}

int termination_requested() noexcept { return g_requested.load(); }

std::uint64_t termination_deadline_ns() noexcept {
  // The handler may be between its two stores.
  const std::uint64_t came = g_requested_ns.load();
  return (came != 0 ? came : base::monotonic_ns()) + kForWaitingNs;
}

void die_by_termination() noexcept {
  const int number = g_requested.load();
  restore_default();
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);  // the drain thread blocks everything else
  ::kill(::getpid(), number);
  ::sleep(1);
  ::_exit(128 + number);  // the signal is blocked in every thread, or a debugger took it
}

}  // namespace sonde::session
