// The drain thread: when it works, for how long it waits for what is under way, and how it ends.
//
// Comments of this folder speak of the *draining thread*: the thread that moves records at that
// moment. Normally it is the drain thread. When shutdown() ends the session, it is the thread that
// called shutdown(). Where there is no drain thread, it is the one that called flush() or
// shutdown().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/base/progress.h"
#include "engine/base/status.h"
#include "engine/session/capture_queue.h"
#include "engine/session/journal_keeper.h"
#include "engine/session/sinks.h"
#include "engine/session/transfer.h"

namespace sonde::session {

class DrainLoop {
 public:
  // How long a tick waits for what is not finished.
  struct Patience {
    std::uint64_t gpu_ns = 0;
    std::uint64_t statistics_ns = 0;
    std::uint64_t blobs_ns = 0;
    std::uint64_t sinks_ns = 0;                  // also for messages that the host has to get
    std::uint64_t until_ns = ~std::uint64_t{0};  // when all waiting ends (base::monotonic_ns)

    // Shortens one of the four times above so that it ends at `until_ns` at the latest.
    std::uint64_t left(std::uint64_t patience_ns) const noexcept;
  };
  // A signal ends the process at `until_ns`.
  static Patience on_signal(std::uint64_t until_ns) noexcept;

  // `on_termination` is called on the drain thread when a signal asks the process to end. It does
  // not return.
  DrainLoop(Transfer& transfer, JournalKeeper& keeper, CaptureQueue& captures, Sinks& sinks,
            std::uint64_t interval_ns, std::function<void()> on_termination);

  // Starts the thread. If that is not possible, flush() and finish() do its work.
  base::Status start();
  // Called instead of start() when memory ran out before the thread could be started.
  void go_without_thread() noexcept;

  // Any thread. Returns when everything recorded before the call has gone through the sinks, or
  // after 30 s, or once a sink that is not durable has kept it waiting for 2 s. On a thread that
  // serves sinks it returns at once: a sink that flushes would wait for itself.
  void flush();
  // The thread that ends the session, once: drains everything that is left. It does so itself,
  // because on a busy machine it takes milliseconds until the drain thread gets its turn.
  void finish();
  // The draining thread: everything that is left, to all sinks, for the last time.
  void last_tick(const Patience& patience);

 private:
  // What the drain thread and the end of the session share. The thread touches the session only
  // with the lock held and while it is not over: after that the session may be gone.
  struct Watch {
    std::mutex lock;
    bool over = false;
  };

  void run(Watch& watch, std::uint32_t seen_at_start) noexcept;
  static bool run_put_off(const Watch& watch, std::unique_lock<std::mutex>& lock) noexcept;
  bool sleep(std::uint32_t seen, Watch& watch, std::unique_lock<std::mutex>& lock) noexcept;
  bool has_captures(bool polls) noexcept;
  void tick(const Patience& patience, bool last);
  void try_tick() noexcept;
  void try_last_tick() noexcept;
  void drain_here();
  void use_idle_time(std::uint32_t seen) noexcept;

  Transfer& transfer_;
  JournalKeeper& keeper_;
  CaptureQueue& captures_;
  Sinks& sinks_;
  std::uint64_t interval_ns_;
  std::function<void()> on_termination_;
  std::thread thread_;
  std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();
  base::Progress requests_;  // of flush()
  std::atomic<bool> stopping_{false};
  std::atomic<bool> threadless_{false};  // no thread could be started
};

}  // namespace sonde::session
