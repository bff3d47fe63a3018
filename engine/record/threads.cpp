// How threads and tasks come to their lanes and give them back, and the gate that keeps them out.
// lane.h declares what is here.
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "engine/record/addresses.h"
#include "engine/record/generation.h"
#include "engine/record/journal.h"
#include "engine/record/lane.h"
#include "engine/record/layout.h"
#include "engine/record/names.h"
#include "engine/record/root.h"
#include "engine/record/scope.h"

namespace sonde::record {

namespace detail {

namespace {

// Losses of threads without a lane, and of lanes that are gone.
std::atomic<std::uint64_t> g_laneless_spans{0}, g_laneless_marks{0}, g_laneless_depth{0};
std::atomic<std::uint32_t> g_attaching{0};  // threads on their way to a lane

// Counted before the gate is tested: a thread that closes the gate and then finds none counted can
// rely on it that no lane appears.
struct Attaching {
  Attaching() noexcept { g_attaching.fetch_add(1, std::memory_order_seq_cst); }
  Attaching(const Attaching&) = delete;
  Attaching& operator=(const Attaching&) = delete;
  ~Attaching() { g_attaching.fetch_sub(1, std::memory_order_seq_cst); }
};

// Ends the lane of a thread that ends. Runs as the destructor of a pthread key: the thread-local
// destructors of C++ would cost a guard on every access.
void on_thread_exit(void* lane) {
  ThreadState& state = t_state;
  if (state.lane == nullptr || state.lane != lane) return;
  {
    const std::lock_guard lock(Journal::instance().backing());  // lanes may be voided until then
    if (!is_void(state.generation)) {
      close_above(*state.lane, 0, ClosedBy::kThreadExit);
      Journal::instance().give_lane(*state.lane);
    }
  }
  state = {};
}

struct ProcessSetup {
  pthread_key_t key;
  ProcessSetup() {
    pthread_key_create(&key, on_thread_exit);
    // Makes the journal and the names before any fork can happen. A root span cannot carry its name
    // as text, so one name for it must be there even if the table of names is full later.
    intern(kAnySession);
  }
};
ProcessSetup& setup() {
  static auto* instance = new ProcessSetup;
  return *instance;
}

// From here on the records of the ring are another thread's.
void announce_thread(Lane& lane) noexcept {
  std::byte* slot = reserve(lane, 1);
  if (slot == nullptr) return;
  ThreadRecord record = {};
  record.kind = RecordKind::kThread;
  record.thread_id = lane.thread_id;
  record.os_thread_id = lane.os_thread_id;
  std::memcpy(slot, &record, sizeof record);
  publish(lane, 1);
}

}  // namespace

void forget_attaching() noexcept { g_attaching.store(0); }

ThreadState* attach_slow() noexcept {
  const Attaching attaching;
  if (g_gate.load(std::memory_order_seq_cst) == 0) return nullptr;
  Journal::instance().announce_first_lane();  // may run code that records
  ThreadState& state = t_state;
  const Generation now = g_gate.load();
  if (now == 0) return nullptr;
  if (state.lane == nullptr || is_void(state.generation)) {
    Lane* lane = Journal::instance().take_lane(LaneState::kThread, 0);
    if (lane == nullptr) {
      g_laneless_spans.fetch_add(1, std::memory_order_relaxed);
      return nullptr;
    }
    pthread_setspecific(setup().key, lane);
    state.lane = lane;
    announce_thread(*lane);
  }
  state.generation = now;
  return &state;
}

std::byte* next_block(Lane& lane) noexcept {
  const std::uint32_t number = Journal::instance().take_block();
  if (number == 0) return nullptr;
  BlockHeader& fresh = block_at(number);
  const std::uint64_t position = lane.head.load(std::memory_order_relaxed);
  fresh.base = position;
  fresh.end = 0;
  fresh.next.store(0, std::memory_order_relaxed);
  fresh.type.store(BlockType::kRing, std::memory_order_release);
  if (lane.block != 0) {
    BlockHeader& full = block_at(lane.block);
    full.end = position;
    full.next.store(number, std::memory_order_release);
  } else {
    lane.first_block.store(number, std::memory_order_release);
  }
  __atomic_store_n(&lane.block, number, __ATOMIC_RELAXED);  // keep_warm looks from the drain thread
  lane.block_used = 0;
  return reinterpret_cast<std::byte*>(&fresh) + kSlotBytes;
}

}  // namespace detail

void open_gate() noexcept {
  detail::setup();
  detail::want_gate_open(true);
}

namespace {

// Gate closed: true when no other thread can still be past it.
bool no_other_thread_records() noexcept {
  if (detail::g_attaching.load(std::memory_order_seq_cst) != 0) return false;
  Journal& journal = Journal::instance();
  for (std::uint32_t i = 0; i < journal.lane_count(); ++i) {
    const Lane& lane = journal.lane(i);
    if (&lane != detail::t_state.lane &&
        lane.state.load(std::memory_order_acquire) == LaneState::kThread)
      return false;
  }
  return true;
}

// Also where another thread has closed the gate: it may have done so just now.
void await_no_recording() noexcept {
  if (no_other_thread_records()) return;
  // A thread that found the gate open finishes its few stores long before this is over.
  const timespec moment{0, 200'000};
  nanosleep(&moment, nullptr);
}

}  // namespace

void close_gate() noexcept {
  detail::want_gate_open(false);
  await_no_recording();
}

void hold_gate_closed() noexcept {
  detail::count_gate_holder(true);
  await_no_recording();
}

void release_gate() noexcept { detail::count_gate_holder(false); }

Lane* take_task_lane(std::uint64_t inherited_parent) noexcept {
  return Journal::instance().take_lane(LaneState::kTask, inherited_parent);
}

void give_task_lane(Lane* lane, Generation made_in) noexcept {
  if (lane == nullptr) return;
  const std::lock_guard lock(Journal::instance().backing());  // lanes may be voided until then
  if (is_void(made_in)) return;
  close_above(*lane, 0, ClosedBy::kGarbage);
  Journal::instance().give_lane(*lane);
}

void count_laneless(bool mark) noexcept {
  (mark ? detail::g_laneless_marks : detail::g_laneless_spans)
      .fetch_add(1, std::memory_order_relaxed);
}

namespace {

Losses losses_of_lanes() noexcept {
  Journal& journal = Journal::instance();
  Losses sum;
  for (std::uint32_t i = 0; i < journal.lane_count(); ++i) {
    const Lane& lane = journal.lane(i);
    sum.spans += lane.lost_spans.load(std::memory_order_relaxed);
    sum.marks += lane.lost_marks.load(std::memory_order_relaxed);
    sum.depth += lane.lost_depth.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace

Losses total_losses() noexcept {
  Losses sum = losses_of_lanes();
  sum.spans += detail::g_laneless_spans.load(std::memory_order_relaxed);
  sum.marks += detail::g_laneless_marks.load(std::memory_order_relaxed);
  sum.depth += detail::g_laneless_depth.load(std::memory_order_relaxed);
  return sum;
}

Losses Losses::since(const Losses& earlier) const noexcept {
  const auto left = [](std::uint64_t now, std::uint64_t before) {
    return now - std::min(now, before);
  };
  return {left(spans, earlier.spans), left(marks, earlier.marks), left(depth, earlier.depth)};
}

void detail::keep_losses() noexcept {
  const Losses gone = losses_of_lanes();
  g_laneless_spans.fetch_add(gone.spans, std::memory_order_relaxed);
  g_laneless_marks.fetch_add(gone.marks, std::memory_order_relaxed);
  g_laneless_depth.fetch_add(gone.depth, std::memory_order_relaxed);
}

void detail::forget_losses() noexcept {
  g_laneless_spans.store(0);
  g_laneless_marks.store(0);
  g_laneless_depth.store(0);
}

}  // namespace sonde::record
