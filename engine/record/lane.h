// A thread's way into the journal: the gate, its lane, and the store of one record.
//
// Every function in this folder that is marked hot keeps to this contract: the thread that owns the
// lane calls it, and it takes no lock, allocates nothing, makes no system call and throws nothing.
// What does not fit is dropped and counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/record/addresses.h"
#include "engine/record/generation.h"
#include "engine/record/layout.h"  // IWYU pragma: export
#include "engine/record/root.h"

namespace sonde::record {

// The state of one thread.
struct ThreadState {
  Lane* lane = nullptr;         // owns ring and stack
  Generation generation = ~0u;  // valid while equal to the gate
  std::uint32_t marks = 0;      // how many of its sequences are marks
};

namespace detail {
extern constinit thread_local ThreadState t_state __attribute__((tls_model("initial-exec")));

ThreadState* attach_slow() noexcept;
ThreadState* thread_for_closing() noexcept;
// Makes all lanes and handles void: they belong to another process, or their memory is gone.
void void_lanes() noexcept;
// In a forked child: threads that were on their way to a lane do not exist here.
void forget_attaching() noexcept;
std::uint64_t parent_below(const Lane& stack, std::uint32_t depth) noexcept;
// The parent of what is opened on an empty stack: the scope that the stack's task was made in,
// while that session lasts, otherwise the session.
inline std::uint64_t parent_of_stack(const Lane& stack) noexcept {
  const std::uint64_t session = root_sequence();
  return stack.inherited_parent != 0 && stack.inherited_session == session ? stack.inherited_parent
                                                                           : session;
}
[[gnu::cold, gnu::noinline]] std::byte* next_block(Lane& lane) noexcept;
}  // namespace detail

// Hot. The state of this thread, which has a lane and is of the present generation. nullptr:
// recording is off, or there is no lane left.
inline ThreadState* this_thread() noexcept {
  ThreadState& state = detail::t_state;
  if (state.generation == detail::g_gate.load(std::memory_order_relaxed)) [[likely]]
    return &state;
  return detail::attach_slow();
}

// As above, but never takes a lane: that would start a session that waits for its first record.
// nullptr: this thread has recorded nothing, or recording is off.
ThreadState* this_thread_if_it_records() noexcept;

// Hot. The state of this thread, to record the end of a scope with, even if the gate is closed by
// now. nullptr: it has no lane and can get none. `opened_in` is the generation of the scope's
// handle.
inline ThreadState* closing_thread(Generation opened_in) noexcept {
  ThreadState& state = detail::t_state;
  if (state.lane != nullptr && state.generation == opened_in) [[likely]]
    return &state;
  return detail::thread_for_closing();
}

// Any thread. Opens or closes the gate. Closing waits a moment for threads that have already found
// it open.
void open_gate() noexcept;
void close_gate() noexcept;
// Any thread. Holds the gate closed until release_gate(), and waits as close_gate() does. Several
// threads may do so at the same time; the gate stays closed until the last of them releases it.
void hold_gate_closed() noexcept;
void release_gate() noexcept;
// Any thread. Asked by tests only.
bool gate_open() noexcept;

// Hot. Room for `slots` contiguous slots, or nullptr. Nothing is visible before publish.
inline std::byte* reserve(Lane& lane, std::uint32_t slots) noexcept {
  if (lane.block_used + slots > kSlotsPerBlock) [[unlikely]] {
    return detail::next_block(lane);
  }
  return bytes_of_block(lane.block) + (1 + lane.block_used) * kSlotBytes;
}

// Hot. The slots just written are now part of the ring, for readers in this process and in others.
inline void publish(Lane& lane, std::uint32_t slots) noexcept {
  lane.block_used += slots;
  lane.head.store(lane.head.load(std::memory_order_relaxed) + slots, std::memory_order_release);
}

// For the thread that owns the lane: when the newest record of its ring was made. 0: there is none,
// or it ends with text.
std::uint64_t newest_ns(const Lane& lane) noexcept;

// Sequence of the scope that a new span or mark of this stack belongs to; 0: none.
inline std::uint64_t current_parent(const Lane& stack) noexcept {
  const std::uint32_t depth = stack.depth.load(std::memory_order_relaxed);
  if (depth > 0) [[likely]] {
    const OpenScope& top = stack.stack[depth - 1];
    if ((top.flags.load(std::memory_order_relaxed) & kSlotClosed) == 0) [[likely]]
      return top.sequence;
    return detail::parent_below(stack, depth - 1);
  }
  return detail::parent_of_stack(stack);
}

// A stack for an asyncio task. Its records go to the ring of the thread that runs the task.
Lane* take_task_lane(std::uint64_t inherited_parent) noexcept;
void give_task_lane(Lane* lane, Generation made_in) noexcept;

// Counts a scope or mark that found no lane.
void count_laneless(bool mark) noexcept;

// How much was lost since the process began.
struct Losses {
  std::uint64_t spans = 0, marks = 0, depth = 0;

  // The losses since `earlier`. If pages of the journal have vanished, their counters have too: the
  // result may then be too low.
  Losses since(const Losses& earlier) const noexcept;
};
Losses total_losses() noexcept;

namespace detail {
// Keeps what the lanes have counted, because all lanes are about to vanish.
void keep_losses() noexcept;
// In a forked child: the losses of its parent do not count.
void forget_losses() noexcept;
}  // namespace detail

}  // namespace sonde::record
