#include "engine/snapshot/pool.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "engine/base/thread.h"

namespace sonde::snapshot {

namespace {

class Pool {
 public:
  pid_t process() const noexcept { return process_; }

  void run(unsigned helpers, const std::function<void()>& work) {
    const std::unique_lock busy(busy_, std::try_to_lock);
    if (!busy) return work();
    helpers = grow(helpers);
    {
      const std::lock_guard lock(mutex_);
      work_ = &work;
      wanted_ = at_work_ = helpers;
    }
    if (helpers == 1)
      wake_.notify_one();
    else
      wake_.notify_all();
    work();
    std::unique_lock lock(mutex_);
    // Helpers that have not woken up yet are not needed any more.
    at_work_ -= wanted_;
    wanted_ = 0;
    back_.wait(lock, [&] { return at_work_ == 0; });
    work_ = nullptr;
  }

 private:
  // Starts threads until there are `helpers`, if it can; returns how many of them may help.
  unsigned grow(unsigned helpers) {
    const auto start = [this] {
      return base::start_detached_thread("sonde-measure", [this] { wait(); }).ok();
    };
    while (threads_ < helpers && start()) ++threads_;
    return std::min(helpers, threads_);
  }

  void wait() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return wanted_ != 0; });
      --wanted_;
      const std::function<void()>* work = work_;
      lock.unlock();
      (*work)();
      lock.lock();
      if (--at_work_ == 0) back_.notify_one();
    }
  }

  const pid_t process_ = getpid();
  std::mutex busy_;  // one run at a time
  unsigned threads_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_, back_;
  const std::function<void()>* work_ = nullptr;
  unsigned wanted_ = 0;
  unsigned at_work_ = 0;
};

// A forked child has none of its parent's threads, and the locks may be held: it makes a new pool.
Pool& pool() {
  static std::atomic<Pool*> current = nullptr;
  Pool* known = current.load(std::memory_order_acquire);
  if (known != nullptr && known->process() == getpid()) return *known;
  auto* fresh = new Pool;
  if (current.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;
  return *known;
}

}  // namespace

void run_together(unsigned helpers, const std::function<void()>& work) {
  if (helpers == 0) return work();
  pool().run(helpers, work);
}

}  // namespace sonde::snapshot
