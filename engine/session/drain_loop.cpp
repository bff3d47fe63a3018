#include "engine/session/drain_loop.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/deadline.h"
#include "engine/base/event.h"
#include "engine/base/host_thread.h"
#include "engine/base/log.h"
#include "engine/base/put_off.h"
#include "engine/base/status.h"
#include "engine/base/thread.h"
#include "engine/record/journal.h"
#include "engine/session/capture_queue.h"
#include "engine/session/journal_keeper.h"
#include "engine/session/serving.h"
#include "engine/session/signals.h"
#include "engine/session/sinks.h"
#include "engine/session/transfer.h"

namespace sonde::session {

using record::Journal;

namespace {

constexpr std::uint64_t kMillisecond = 1'000'000, kSecond = 1'000'000'000;
constexpr std::uint64_t kFlushPatienceNs = 30 * kSecond;
constexpr std::uint64_t kStatisticsPollNs = 5 * kMillisecond;
constexpr std::uint64_t kSignOfLifeNs = kCapturesTogetherNs;
constexpr const char* kTickFailed = "a flush failed, and what it held may be lost";

// A tick that no thread waits for, one that a flush() waits for, the end of the session.
constexpr DrainLoop::Patience kNone = {};
constexpr DrainLoop::Patience kForFlush = {
    .gpu_ns = 200 * kMillisecond, .statistics_ns = 2 * kSecond, .sinks_ns = 2 * kSecond};
constexpr DrainLoop::Patience kAtTheEnd = {.gpu_ns = 2 * kSecond,
                                           .statistics_ns = 2 * kSecond,
                                           .blobs_ns = 30 * kSecond,
                                           .sinks_ns = 2 * kSecond};

// Calls `work`. An exception is counted and logged: "<what failed>: <the exception>; <what to do>".
// False: it threw.
template <typename Work>
bool or_warn(const char* key, const char* what_failed, Work work) noexcept {
  try {
    work();
    return true;
  } catch (const std::exception& error) {
    base::log_failure("flush", key, what_failed, error.what());
  }
  return false;
}

}  // namespace

std::uint64_t DrainLoop::Patience::left(std::uint64_t patience_ns) const noexcept {
  const std::uint64_t now = base::monotonic_ns();
  return now < until_ns ? std::min(patience_ns, until_ns - now) : 0;
}

DrainLoop::Patience DrainLoop::on_signal(std::uint64_t until_ns) noexcept {
  return {.gpu_ns = 500 * kMillisecond,
          .statistics_ns = 2 * kSecond,
          .blobs_ns = 3 * kSecond,
          .sinks_ns = 500 * kMillisecond,
          .until_ns = until_ns};
}

DrainLoop::DrainLoop(Transfer& transfer, JournalKeeper& keeper, CaptureQueue& captures,
                     Sinks& sinks, std::uint64_t interval_ns, std::function<void()> on_termination)
    : transfer_(transfer),
      keeper_(keeper),
      captures_(captures),
      sinks_(sinks),
      interval_ns_(interval_ns),
      on_termination_(std::move(on_termination)) {}

base::Status DrainLoop::start() {
  const std::uint32_t seen = Journal::instance().wake().now();
  base::Status status = base::start_thread(thread_, "sonde-drain",
                                           [this, watch = watch_, seen] { run(*watch, seen); });
  if (!status.ok()) go_without_thread();
  return status;
}

void DrainLoop::go_without_thread() noexcept {
  if (thread_.joinable()) return;
  threadless_.store(true);
  requests_.finish(requests_.newest());  // a flush() that waits for the thread goes on without it
}

void DrainLoop::flush() {
  if (t_serves_sinks) return;
  const std::uint64_t mine = requests_.add();
  if (!threadless_.load()) {
    Journal::instance().wake().raise();
    requests_.await(mine, base::deadline_after(kFlushPatienceNs));
  }
  if (threadless_.load()) drain_here();
  const std::uint64_t deadline_ns = base::deadline_after(kForFlush.sinks_ns);
  sinks_.await(deadline_ns);
  if (!base::t_calls_host) base::run_put_off();  // this thread may have called a sink
  base::await_host_thread(deadline_ns);
}

void DrainLoop::drain_here() {
  std::unique_lock lock(watch_->lock);
  if (watch_->over) return;
  const base::EngineWork work;
  const base::CallsHost calling;  // without another thread, this one calls the host's code
  const Serving serving;
  const std::uint64_t newest = requests_.newest();
  try_tick();
  requests_.finish(newest);
  run_put_off(*watch_, lock);
}

void DrainLoop::finish() {
  stopping_.store(true);
  Journal::instance().wake().raise();
  if (thread_.joinable() || threadless_.load()) {
    const std::lock_guard lock(watch_->lock);
    if (!std::exchange(watch_->over, true)) {
      const base::EngineWork work;
      const base::CallsHost calling;  // without another thread, this one calls the host's code
      const Serving serving;
      keeper_.recover_once();  // the thread may not have got its turn
      try_last_tick();
      base::take_put_off();  // it ends already
    }
  }
  if (thread_.joinable()) thread_.detach();  // it ends by itself when it gets its turn
  base::await_host_thread(base::deadline_after(kAtTheEnd.sinks_ns));
}

void DrainLoop::run(Watch& watch, std::uint32_t seen_at_start) noexcept {
  // A session that is over at once does not have to wait for this thread to get another turn.
  constexpr std::uint64_t kMomentNs = 2 * kMillisecond;
  base::Event& wake = Journal::instance().wake();
  wake.wait(seen_at_start, kMomentNs);
  std::unique_lock lock(watch.lock);
  if (watch.over) return;
  const base::CallsHost calling;  // without another thread, this one calls the host's code
  const Serving serving;
  keeper_.recover_once();
  while (!stopping_.load()) {
    if (termination_requested()) return on_termination_();  // a tick may take all the time there is
    const std::uint32_t seen = wake.now();
    const std::uint64_t newest = requests_.newest();
    try_tick();
    requests_.finish(newest);
    if (termination_requested()) return on_termination_();
    use_idle_time(seen);
    if (!run_put_off(watch, lock)) return;
    if (!sleep(seen, watch, lock)) return;
  }
}

// Ends the session if a log handler or a sink asked for that while records were moved. Releases the
// lock meanwhile. False: the session is over, and the object may be gone.
bool DrainLoop::run_put_off(const Watch& watch, std::unique_lock<std::mutex>& lock) noexcept {
  if (!base::has_put_off()) return true;
  lock.unlock();
  base::run_put_off();
  lock.lock();
  return !watch.over;
}

// What takes long is done in slices, and only while no thread waits.
void DrainLoop::use_idle_time(std::uint32_t seen) noexcept {
  const base::Event& wake = Journal::instance().wake();
  while (wake.now() == seen && !Journal::instance().warm_ahead()) {
  }
  or_warn("idle", "tidying up the output directory failed", [&] {
    while (wake.now() == seen && !sinks_.tidy_some()) {
    }
  });
}

// Sleeps until the next flush is due or the thread is woken. Meanwhile it gives signs of life,
// which an autopsy relies on. False: the session is over, and the object may be gone.
bool DrainLoop::sleep(std::uint32_t seen, Watch& watch,
                      std::unique_lock<std::mutex>& lock) noexcept {
  for (std::uint64_t left = interval_ns_; left != 0;) {
    const bool polls = captures_.waiting().awaits_statistics();
    const std::uint64_t nap = std::min(left, polls ? kStatisticsPollNs : kSignOfLifeNs);
    lock.unlock();
    const bool woken = Journal::instance().wake().wait(seen, nap);
    lock.lock();
    if (watch.over) return false;
    if (woken) return true;
    left -= nap;
    if (has_captures(polls)) return true;
    if (!run_put_off(watch, lock)) return false;
    Journal::instance().give_sign_of_life();
  }
  return true;
}

// Has a capture been added, or is one complete? If this check throws, the answer is yes: the next
// tick looks again.
bool DrainLoop::has_captures(bool polls) noexcept {
  bool found = true;
  or_warn("tick", kTickFailed,
          [&] { found = captures_.take_unannounced() || (polls && captures_.waiting().look()); });
  return found;
}

void DrainLoop::tick(const Patience& patience, bool last) {
  keeper_.grow();
  const std::uint64_t before = transfer_.batches();
  transfer_.drain();
  const bool awaited = !last && !stopping_.load() && requests_.pending();
  const Patience& now = awaited ? kForFlush : patience;
  if (now.gpu_ns != 0) transfer_.await_gpu(now.left(now.gpu_ns), last);
  transfer_.await_captures(now.left(now.statistics_ns), now.left(now.blobs_ns));
  sinks_.flush(now.left(now.sinks_ns), false);
  const bool idle = transfer_.batches() == before;
  if (idle) transfer_.shrink();
  keeper_.keep(idle);
}

void DrainLoop::try_tick() noexcept {
  if (!or_warn("tick", kTickFailed, [&] { tick(kNone, false); })) keeper_.keep_file();
}

void DrainLoop::last_tick(const Patience& patience) {
  const auto limit_spool = [&] {
    sinks_.limit_spool(base::monotonic_ns() + patience.left(patience.blobs_ns));
  };
  limit_spool();  // retries of earlier batches must not use up all the time
  // Statistics, files and sinks are waited for below, after hurry().
  tick({.gpu_ns = patience.gpu_ns, .until_ns = patience.until_ns}, true);
  if (transfer_.was_cut_short()) keeper_.keep_file();
  captures_.hurry();
  transfer_.await_captures(patience.left(patience.statistics_ns), patience.left(patience.blobs_ns));
  transfer_.give_up_captures();
  limit_spool();
  if (!sinks_.flush(patience.left(patience.sinks_ns), true)) keeper_.keep_file();
  keeper_.say_left_behind(sinks_.left_behind());
  // The deadline counts from here, because the spool may have taken its time.
  const std::uint64_t deadline_ns = base::deadline_after(patience.left(patience.sinks_ns));
  sinks_.await(deadline_ns);
  sinks_.close();
}

void DrainLoop::try_last_tick() noexcept {
  if (!or_warn("last-tick", "the last flush failed, so the end of the run may be missing",
               [&] { last_tick(kAtTheEnd); }))
    keeper_.keep_file();
  captures_.waiting().close();
  requests_.finish_all();
}

}  // namespace sonde::session
