#include "engine/session/delivery.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/deadline.h"
#include "engine/base/event.h"
#include "engine/base/face.h"
#include "engine/base/log.h"
#include "engine/base/progress.h"
#include "engine/base/put_off.h"
#include "engine/base/status.h"
#include "engine/base/swallowed.h"
#include "engine/base/thread.h"
#include "engine/session/counters.h"
#include "engine/session/outgoing_batch.h"
#include "engine/session/serving.h"
#include "engine/session/sink.h"

namespace sonde::session {

namespace {

// The queue that this thread serves.
thread_local const void* t_served = nullptr;

void warn(std::string_view key, std::string_view sink, std::string text) {
  base::log_once(base::LogLevel::kWarning, "flush", std::string(key).append(":").append(sink),
                 std::move(text), base::face().advise(key));
}

}  // namespace

struct Delivery::Queue {
  // A batch, or without one the request to flush.
  struct Task {
    std::uint64_t number = 0;
    std::shared_ptr<const OutgoingBatch> batch;
    std::size_t bytes = 0;
    std::uint64_t patience_ns = 0;  // counts from when the sink flushes, not while the task waits
    bool last = false;
  };

  // What the session's end took from the sink.
  struct Left {
    std::size_t batches = 0;
    bool held = false;  // what the sink may have held back: it was not told of the end
  };

  explicit Queue(std::shared_ptr<Sink> whose)
      : sink(std::move(whose)), name(sink->name()), place("delivery to " + name) {}

  bool add(Task task);
  bool over();
  Left close() noexcept;
  // Serves the sink until the session is over: the work of its thread.
  void serve() noexcept;
  // For a sink whose thread could not be started: does its work on the calling thread, until the
  // deadline at most.
  void serve_here(std::uint64_t deadline_ns) noexcept;

  const std::shared_ptr<Sink> sink;
  const std::string name, place;  // of the sink, and under which its losses are counted
  base::Event arrived;
  base::Progress progress;
  std::mutex turn;  // held by the thread that calls the sink

  std::mutex lock;  // guards the rest
  std::deque<Task> tasks;
  std::size_t bytes = 0, batches = 0;  // in tasks
  bool closed = false;
  bool at_rest = true;  // nothing came since the sink last flushed, and it had nothing left

 private:
  void append(Task task);
  std::optional<Task> take();
  bool serve_oldest() noexcept;
  void run(const Task& task) noexcept;
};

// False where it is full.
bool Delivery::Queue::add(Task task) {
  {
    const std::lock_guard guard(lock);
    if (task.batch) {
      if (batches >= kMaxBatches || (batches != 0 && bytes + task.bytes > kMaxBytes)) return false;
      append(std::move(task));
      at_rest = false;
    } else if (at_rest && !task.last) {
      return true;
    } else if (!tasks.empty() && !tasks.back().batch) {
      Task& waiting = tasks.back();
      waiting.patience_ns = std::max(waiting.patience_ns, task.patience_ns);
      waiting.last = waiting.last || task.last;
      return true;
    } else {
      append(std::move(task));
    }
  }
  arrived.raise();
  return true;
}

void Delivery::Queue::append(Task task) {
  task.number = progress.newest() + 1;
  tasks.push_back(std::move(task));
  progress.add();
  bytes += tasks.back().bytes;
  batches += tasks.back().batch ? 1 : 0;
}

std::optional<Delivery::Queue::Task> Delivery::Queue::take() {
  const std::lock_guard guard(lock);
  if (tasks.empty()) return std::nullopt;
  std::optional<Task> task(std::move(tasks.front()));
  tasks.pop_front();
  bytes -= task->bytes;
  batches -= task->batch ? 1 : 0;
  return task;
}

bool Delivery::Queue::over() {
  const std::lock_guard guard(lock);
  return closed;
}

Delivery::Queue::Left Delivery::Queue::close() noexcept {
  const std::lock_guard guard(lock);
  Left left;
  if (std::exchange(closed, true)) return left;
  left.batches = batches;
  left.held = !at_rest && std::ranges::any_of(tasks, [](const Task& task) { return task.last; });
  tasks.clear();
  batches = bytes = 0;
  return left;
}

void Delivery::Queue::run(const Task& task) noexcept {
  if (task.batch) {
    hand(*sink, task.batch);
    return;
  }
  const std::uint64_t deadline_ns = base::deadline_after(task.patience_ns);
  const bool nothing_left =
      guarded(sink->name(), [&] { return sink->flush(deadline_ns, task.last); });
  const std::lock_guard guard(lock);
  if (tasks.empty()) at_rest = nothing_left;
}

// The caller has the turn. False: there is nothing to do.
bool Delivery::Queue::serve_oldest() noexcept {
  const std::optional<Task> task = take();
  if (!task) return false;
  const Serving serving;
  const base::CallsHost calling;
  const void* const before = std::exchange(t_served, this);
  run(*task);
  t_served = before;
  progress.finish(task->number);
  return true;
}

void Delivery::Queue::serve() noexcept {
  constexpr std::uint64_t kLongNs = 3'600'000'000'000;
  const auto serve_next = [this] {
    const std::lock_guard mine(turn);
    return serve_oldest();
  };
  while (!over()) {
    const std::uint32_t seen = arrived.now();
    if (serve_next()) {
      base::run_put_off();
    } else if (!over()) {
      arrived.wait(seen, kLongNs);
    }
  }
}

void Delivery::Queue::serve_here(std::uint64_t deadline_ns) noexcept {
  const std::unique_lock mine(turn, std::try_to_lock);
  if (!mine.owns_lock()) return;  // another thread serves it
  const base::EngineWork work;
  while (!over() && base::monotonic_ns() < deadline_ns && serve_oldest()) {
  }
}

Delivery::Delivery(std::shared_ptr<Sink> sink) : queue_(std::make_shared<Queue>(std::move(sink))) {}

void Delivery::start() noexcept {
  wanted_ = true;
  if (has_thread_.load()) return;
  has_thread_.store(guarded(queue_->name, [&] {
    return base::start_detached_thread("sonde-sink", [queue = queue_] { queue->serve(); }).ok();
  }));
}

void Delivery::accept(const std::shared_ptr<const OutgoingBatch>& batch,
                      std::size_t bytes) noexcept {
  start();
  guarded(queue_->name, [&] {
    if (queue_->add({.batch = batch, .bytes = bytes})) return true;
    base::note_swallowed(queue_->place);
    if (has_thread_.load()) {
      warn("sinks-full", queue_->name,
           "the output (" + queue_->name +
               ") does not keep up, and the newest batches are not shown there");
    } else {
      warn("no-thread", queue_->name,
           "no thread can be started for the output (" + queue_->name +
               "), and the newest batches are not shown there");
    }
    return true;
  });
}

void Delivery::flush(std::uint64_t patience_ns, bool last) noexcept {
  if (last) start();
  if (!wanted_) return;
  Queue::Task task;
  task.patience_ns = patience_ns;
  task.last = last;
  guarded(queue_->name, [&] { return queue_->add(std::move(task)); });
}

void Delivery::await(std::uint64_t deadline_ns) noexcept {
  if (t_served == queue_.get()) return;  // a sink that waits would wait for itself
  if (!has_thread_.load()) queue_->serve_here(deadline_ns);
  queue_->progress.await_all(deadline_ns);
}

void Delivery::count(Counters& all) const { queue_->sink->count(all); }

void Delivery::close() noexcept {
  const Queue::Left left = queue_->close();
  queue_->arrived.raise();
  queue_->progress.finish_all();
  if (left.batches == 0 && !left.held) return;
  guarded(queue_->name, [&] {
    for (std::size_t i = 0; i < left.batches + (left.held ? 1 : 0); ++i)
      base::note_swallowed(queue_->place);
    std::string lost;
    if (left.batches != 0) lost = std::to_string(left.batches) + " batches";
    if (left.held) lost.append(lost.empty() ? "" : " and ").append("what it still held back");
    warn("sinks-late", queue_->name,
         "the output (" + queue_->name + ") was stuck when the session ended, and " + lost +
             (left.batches != 0 ? " were" : " was") + " not shown there");
    return true;
  });
}

}  // namespace sonde::session
