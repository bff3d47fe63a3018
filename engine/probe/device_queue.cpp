#include "engine/probe/device_queue.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "engine/base/clock.h"
#include "engine/probe/gpu_clock.h"

namespace sonde::probe {

namespace {

constexpr std::uint32_t kMarkBit = 1u << 31;
constexpr std::size_t kMostMarks = 1u << 16;

enum class State : std::uint8_t { kFree, kWaiting, kPassed, kUnknown };

struct Mark {
  std::uint64_t passed_ns = 0;  // while it waits: when the program got there
  std::uint64_t piece = 0;      // handed over last before it
  State state = State::kFree;
};

struct Queue {
  std::mutex lock;
  std::vector<Mark> marks;
  std::vector<std::uint32_t> free;
  std::deque<std::uint32_t> waiting;  // in the order they were made
  std::uint64_t submitted = 0, done = 0;
  int watchers = 0;

  // All that wait for this piece, or for one before it.
  template <typename Settle>
  void settle(std::uint64_t piece, Settle settle) {
    done = std::max(done, piece);
    while (!waiting.empty() && marks[waiting.front()].piece <= done) {
      Mark& mark = marks[waiting.front()];
      waiting.pop_front();
      if (mark.state == State::kWaiting) settle(mark);
    }
  }
};

Queue* g_queue = nullptr;

// A fork may come while another thread holds the lock: the child begins with a new queue.
Queue& queue() {
  static const int kRegistered =
      ::pthread_atfork(nullptr, nullptr, [] { g_queue = new Queue; });  // the old one is leaked
  static_cast<void>(kRegistered);
  if (g_queue == nullptr) g_queue = new Queue;
  return *g_queue;
}

}  // namespace

void queue_watch() noexcept {
  Queue& all = queue();
  const std::lock_guard lock(all.lock);
  ++all.watchers;
}

void queue_unwatch() noexcept {
  Queue& all = queue();
  const std::lock_guard lock(all.lock);
  if (all.watchers > 0) --all.watchers;
}

bool queue_watched() noexcept {
  Queue& all = queue();
  const std::lock_guard lock(all.lock);
  return all.watchers > 0;
}

std::uint64_t queue_submit() noexcept {
  Queue& all = queue();
  const std::lock_guard lock(all.lock);
  return ++all.submitted;
}

void queue_done(std::uint64_t piece, std::uint64_t now_ns) noexcept {
  Queue& all = queue();
  const std::lock_guard lock(all.lock);
  all.settle(std::min(piece, all.submitted), [&](Mark& mark) {
    mark.passed_ns = std::max(mark.passed_ns, now_ns);
    mark.state = State::kPassed;
  });
}

void queue_abandon(std::uint64_t piece) noexcept {
  Queue& all = queue();
  const std::lock_guard lock(all.lock);
  all.settle(std::min(piece, all.submitted), [](Mark& mark) { mark.state = State::kUnknown; });
}

std::uint32_t queue_mark() noexcept {
  Queue& all = queue();
  const std::lock_guard lock(all.lock);
  if (all.watchers == 0) return 0;
  if (all.free.empty()) {
    if (all.marks.size() == kMostMarks) return 0;
    all.free.push_back(static_cast<std::uint32_t>(all.marks.size()));
    all.marks.emplace_back();
  }
  const std::uint32_t slot = all.free.back();
  all.free.pop_back();
  const bool waits = all.done < all.submitted;
  all.marks[slot] = {base::monotonic_ns(), all.submitted, waits ? State::kWaiting : State::kPassed};
  if (waits) all.waiting.push_back(slot);
  return slot | kMarkBit;
}

void queue_release(std::uint32_t mark) noexcept {
  if (mark == 0) return;
  Queue& all = queue();
  const std::lock_guard lock(all.lock);
  const std::uint32_t slot = mark & ~kMarkBit;
  if (slot >= all.marks.size() || all.marks[slot].state == State::kFree) return;
  if (all.marks[slot].state == State::kWaiting) std::erase(all.waiting, slot);
  all.marks[slot].state = State::kFree;
  all.free.push_back(slot);
}

GpuTime queue_elapsed(std::uint32_t start, std::uint32_t end, std::int64_t& ns) noexcept {
  Queue& all = queue();
  const std::lock_guard lock(all.lock);
  GpuTime known = GpuTime::kKnown;
  std::uint64_t times[2] = {};
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t mark = i == 0 ? start : end, slot = mark & ~kMarkBit;
    if (!is_queue_mark(mark) || slot >= all.marks.size()) return GpuTime::kUnknown;
    const State state = all.marks[slot].state;
    if (state == State::kUnknown || state == State::kFree) return GpuTime::kUnknown;
    if (state == State::kWaiting) known = GpuTime::kPending;
    times[i] = all.marks[slot].passed_ns;
  }
  if (known == GpuTime::kKnown)
    ns = static_cast<std::int64_t>(times[1] > times[0] ? times[1] - times[0] : 0);
  return known;
}

}  // namespace sonde::probe
