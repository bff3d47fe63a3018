#include "engine/session/signals.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "engine/base/event.h"
#include "engine/record/journal.h"

namespace sonde::session {

namespace {

constexpr std::uint64_t kPatienceNs = 5'000'000'000;

std::atomic<bool> g_requested{false};
std::atomic<bool> g_watching{false};
base::Event g_done;
record::Journal* g_journal = nullptr;

// Only atomics and futex calls happen in here. The work is done by the drain thread, which holds no lock
// that the interrupted thread could hold, but for the allocator's: hence the bound on the wait.
void on_terminate(int number) {
  const int saved = errno;
  if (!g_requested.exchange(true)) {
    const std::uint32_t seen = g_done.now();
    g_journal->wake().raise();
    g_done.wait(seen, kPatienceNs);
  }
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(number, &standard, nullptr);
  ::kill(::getpid(), number);  // delivered when this handler returns
  errno = saved;
}

bool ours(const struct sigaction& action) { return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == on_terminate; }

}  // namespace

void watch_termination() noexcept {
  struct sigaction current;
  if (::sigaction(SIGTERM, nullptr, &current) != 0 || (current.sa_flags & SA_SIGINFO) != 0 || current.sa_handler != SIG_DFL) return;
  g_journal = &record::Journal::instance();
  g_requested.store(false);
  struct sigaction action = {};
  action.sa_handler = on_terminate;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  if (::sigaction(SIGTERM, &action, nullptr) == 0) g_watching.store(true);
}

void unwatch_termination() noexcept {
  if (g_watching.exchange(false)) forget_termination();
}

void forget_termination() noexcept {
  g_watching.store(false);
  g_requested.store(false);
  struct sigaction current;
  if (::sigaction(SIGTERM, nullptr, &current) != 0 || !ours(current)) return;
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGTERM, &standard, nullptr);
}

bool termination_requested() noexcept { return g_requested.load(); }
void termination_done() noexcept { g_done.raise(); }

}  // namespace sonde::session
