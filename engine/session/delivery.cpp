#include "engine/session/delivery.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/deadline.h"
#include "engine/base/event.h"
#include "engine/base/log.h"
#include "engine/base/status.h"
#include "engine/base/swallowed.h"
#include "engine/base/thread.h"
#include "engine/session/outgoing_batch.h"
#include "engine/session/serving.h"
#include "engine/session/sink.h"

namespace sonde::session {

namespace {

constexpr const char* kLostHere = "delivery";

// The queue that this thread serves.
thread_local const void* t_served = nullptr;

}  // namespace

struct Delivery::Queue {
  // A batch, or without one the request to flush.
  struct Task {
    std::unique_ptr<OutgoingBatch> batch;
    std::size_t bytes = 0;
    std::uint64_t patience_ns = 0;  // counts from when the sinks flush, not while the task waits
    bool last = false;
  };

  explicit Queue(std::vector<std::shared_ptr<Sink>> all) : sinks(std::move(all)) {}

  bool add(Task task);
  std::optional<Task> take();
  bool over();
  void run(const Task& task) noexcept;
  void serve() noexcept;
  std::string names() const;

  const std::vector<std::shared_ptr<Sink>> sinks;
  base::Event arrived, done;
  std::atomic<std::uint64_t> served{0};  // tasks

  std::mutex lock;  // guards the rest
  std::deque<Task> tasks;
  std::size_t bytes = 0, batches = 0;  // in tasks
  std::uint64_t added = 0;             // tasks
  bool closed = false;
  bool at_rest = true;  // nothing came since the sinks last flushed, and they had nothing left
};

// False where it is full.
bool Delivery::Queue::add(Task task) {
  {
    const std::lock_guard guard(lock);
    if (task.batch) {
      if (batches >= kMaxBatches || (batches != 0 && bytes + task.bytes > kMaxBytes)) return false;
      tasks.push_back(std::move(task));
      bytes += tasks.back().bytes;
      ++batches;
    } else if (at_rest && !task.last) {
      return true;
    } else if (!tasks.empty() && !tasks.back().batch) {
      Task& waiting = tasks.back();
      waiting.patience_ns = std::max(waiting.patience_ns, task.patience_ns);
      waiting.last = waiting.last || task.last;
      return true;
    } else {
      tasks.push_back(std::move(task));
    }
    at_rest = false;
    ++added;
  }
  arrived.raise();
  return true;
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

void Delivery::Queue::run(const Task& task) noexcept {
  if (task.batch) {
    for (const auto& sink : sinks) hand(*sink, *task.batch);
    return;
  }
  bool nothing_left = true;
  const std::uint64_t deadline_ns = base::deadline_after(task.patience_ns);
  for (const auto& sink : sinks) {
    const auto flush = [&] { return sink->flush(deadline_ns, task.last); };
    nothing_left = guarded(sink->name(), flush) && nothing_left;
  }
  const std::lock_guard guard(lock);
  if (tasks.empty()) at_rest = nothing_left;
}

void Delivery::Queue::serve() noexcept {
  constexpr std::uint64_t kLongNs = 3'600'000'000'000;
  const Serving serving;
  t_served = this;
  while (!over()) {
    const std::uint32_t seen = arrived.now();
    if (const std::optional<Task> task = take()) {
      run(*task);
      served.fetch_add(1);
      done.raise();
    } else if (!over()) {
      arrived.wait(seen, kLongNs);
    }
  }
}

// "line, event stream"
std::string Delivery::Queue::names() const {
  std::string all;
  for (const auto& sink : sinks) all.append(all.empty() ? "" : ", ").append(sink->name());
  return all;
}

void Delivery::say_full(const Queue& queue) {
  base::note_swallowed(kLostHere);
  base::log_once(base::LogLevel::kWarning, "flush", "sinks-full",
                 "the output (" + queue.names() +
                     ") does not keep up, and the newest batches are not shown there",
                 "find out what blocks standard output or the logging handlers");
}

void Delivery::say_late(const Queue& queue, std::size_t batches) {
  for (std::size_t i = 0; i < batches; ++i) base::note_swallowed(kLostHere);
  base::log_once(base::LogLevel::kWarning, "flush", "sinks-late",
                 "the output (" + queue.names() + ") was stuck when the session ended, and " +
                     std::to_string(batches) + " batches were not shown there",
                 "find out what blocks standard output or the logging handlers");
}

Delivery::Delivery(std::vector<std::shared_ptr<Sink>> sinks) {
  if (!sinks.empty()) queue_ = std::make_shared<Queue>(std::move(sinks));
}

// By the thread, if one can be had.
void Delivery::start() noexcept {
  if (by_ != By::kNone) return;
  const auto launch = [&] {
    return base::start_detached_thread("sonde-sinks", [queue = queue_] { queue->serve(); }).ok();
  };
  by_ = guarded("delivery", launch) ? By::kThread : By::kCaller;
}

std::unique_ptr<OutgoingBatch> Delivery::accept(std::unique_ptr<OutgoingBatch> batch) noexcept {
  if (!queue_) return batch;
  start();
  if (by_ != By::kThread) {
    for (const auto& sink : queue_->sinks) hand(*sink, *batch);
    return batch;
  }
  guarded("delivery", [&] {
    const std::size_t bytes = batch->bytes();
    if (!queue_->add({.batch = std::move(batch), .bytes = bytes})) say_full(*queue_);
    return true;
  });
  return nullptr;
}

void Delivery::flush(std::uint64_t patience_ns, bool last) noexcept {
  if (!queue_) return;
  if (last) start();
  if (by_ == By::kNone) return;
  Queue::Task task{.batch = nullptr, .patience_ns = patience_ns, .last = last};
  if (by_ == By::kThread) {
    guarded("delivery", [&] { return queue_->add(std::move(task)); });
  } else {
    queue_->run(task);
  }
}

void Delivery::await(std::uint64_t deadline_ns) noexcept {
  if (!queue_ || t_served == queue_.get()) return;  // a sink that waits would wait for itself
  std::uint64_t wanted = 0;
  {
    const std::lock_guard guard(queue_->lock);
    wanted = queue_->added;
  }
  for (;;) {
    const std::uint32_t seen = queue_->done.now();
    const std::uint64_t now = base::monotonic_ns();
    if (queue_->served.load() >= wanted || now >= deadline_ns || queue_->over()) return;
    queue_->done.wait(seen, deadline_ns - now);
  }
}

void Delivery::close() noexcept {
  if (!queue_) return;
  std::deque<Queue::Task> left;
  std::size_t batches = 0;
  {
    const std::lock_guard guard(queue_->lock);
    if (std::exchange(queue_->closed, true)) return;
    left.swap(queue_->tasks);
    batches = queue_->batches;
  }
  queue_->arrived.raise();
  queue_->done.raise();
  if (batches != 0) guarded("delivery", [&] { return say_late(*queue_, batches), true; });
}

}  // namespace sonde::session
