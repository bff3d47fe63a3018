#include "engine/record/lane.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/record/addresses.h"
#include "engine/record/generation.h"
#include "engine/record/layout.h"

namespace sonde::record {

namespace detail {

constinit thread_local ThreadState t_state;

void void_lanes() noexcept {
  t_state = {};
  begin_void_generation();
}

ThreadState* thread_for_closing() noexcept {
  ThreadState& state = t_state;
  return state.lane != nullptr && !is_void(state.generation) ? &state : this_thread();
}

// The innermost scope was closed by another thread: looks further down.
std::uint64_t parent_below(const Lane& stack, std::uint32_t depth) noexcept {
  while (depth > 0) {
    const OpenScope& scope = stack.stack[--depth];
    if ((scope.flags.load(std::memory_order_acquire) & kSlotClosed) == 0) return scope.sequence;
  }
  return parent_of_stack(stack);
}

}  // namespace detail

std::uint64_t newest_ns(const Lane& lane) noexcept {
  if (lane.head.load(std::memory_order_relaxed) == 0 || lane.block_used == 0) return 0;
  const std::byte* block = bytes_of_block(lane.block);
  const std::byte* slot = block + lane.block_used * kSlotBytes;  // after its header and the others
  SpanRecord span;
  MarkRecord mark;
  std::memcpy(&span, slot, sizeof span);
  std::memcpy(&mark, slot, sizeof mark);
  // Text does not begin with these bytes.
  if (span.kind == RecordKind::kSpan && span.sequence < lane.next_sequence) return span.end_ns;
  if (mark.kind == RecordKind::kMark && mark.sequence < lane.next_sequence) return mark.ts_ns;
  return 0;
}

ThreadState* this_thread_if_it_records() noexcept {
  ThreadState& state = detail::t_state;
  const Generation now = detail::g_gate.load();
  if (now == 0 || state.lane == nullptr || is_void(state.generation)) return nullptr;
  state.generation = now;
  return &state;
}

bool gate_open() noexcept { return detail::g_gate.load() != 0; }

}  // namespace sonde::record
