#include "engine/base/host_thread.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/base/progress.h"
#include "engine/base/put_off.h"
#include "engine/base/swallowed.h"
#include "engine/base/thread.h"

namespace sonde::base {

namespace {

constexpr std::size_t kMostCalls = 256;

struct Call {
  std::uint64_t number;
  std::function<void()> make;
};

class Calls {
 public:
  // False: no thread could be started to make the call.
  bool add(const std::function<void()>& call);
  void await(std::uint64_t deadline_ns) noexcept {
    if (!t_is_host_thread) progress_.await_all(deadline_ns);
  }

 private:
  std::optional<Call> next();
  void serve() noexcept;

  static thread_local bool t_is_host_thread;

  std::mutex lock_;  // guards the next two
  std::deque<Call> waiting_;
  bool has_thread_ = false;
  Progress progress_;
};

thread_local bool Calls::t_is_host_thread = false;

bool Calls::add(const std::function<void()>& call) {
  const std::lock_guard guard(lock_);
  if (!has_thread_) has_thread_ = start_detached_thread("sonde-log", [this] { serve(); }).ok();
  if (!has_thread_) return false;
  if (waiting_.size() >= kMostCalls) {
    note_swallowed("log");
  } else {
    waiting_.push_back({progress_.newest() + 1, call});
    progress_.add();
  }
  return true;
}

// Empty: nothing is left, and the thread ends.
std::optional<Call> Calls::next() {
  const std::lock_guard guard(lock_);
  if (waiting_.empty()) {
    has_thread_ = false;
    return std::nullopt;
  }
  std::optional<Call> first(std::move(waiting_.front()));
  waiting_.pop_front();
  return first;
}

void Calls::serve() noexcept {
  t_is_host_thread = true;
  const CallsHost calling;
  while (const std::optional<Call> call = next()) {
    try {
      call->make();
    } catch (...) {
      note_swallowed("log");
    }
    progress_.finish(call->number);
    run_put_off();
  }
}

// Never destroyed: a thread may be in it until the process ends.
std::atomic<Calls*>& place() {
  static std::atomic<Calls*> calls{new Calls};
  return calls;
}

}  // namespace

void call_on_host_thread(std::function<void()> call) {
  if (!place().load()->add(call)) call();
}

void await_host_thread(std::uint64_t deadline_ns) noexcept { place().load()->await(deadline_ns); }

void reset_host_thread_after_fork() noexcept { place().store(new Calls); }

}  // namespace sonde::base
