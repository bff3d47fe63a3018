#include "engine/record/scope.h"

#include <algorithm>

namespace sonde::record {

namespace {

// Writes the record of one open scope into this thread's ring; `attrs` replaces the kept ones if set.
void write_record(ThreadState& thread, Lane& stack, OpenScope& scope, const ScopeEnd& end, std::uint64_t end_ns) noexcept {
  Lane& ring = *thread.lane;
  const char* text = stack.arena + scope.text_offset;
  const std::string_view name(text, scope.name_length);
  std::string_view attrs = end.replace_attrs ? end.attrs : std::string_view(text + scope.name_length, scope.attrs_length);
  if (name.size() + attrs.size() > kMaxPayloadBytes) attrs = {};
  const std::uint32_t slots = 1 + text_slots(name.size() + attrs.size());
  std::byte* place = reserve(ring, slots);
  if (place == nullptr) {
    ring.lost_spans.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  SpanRecord record = {};
  record.kind = RecordKind::kSpan;
  record.closed_by = end.closed_by;
  record.flags = static_cast<std::uint8_t>(scope.flags.load(std::memory_order_relaxed) & ~kSlotClosed);
  record.name = scope.name;
  record.sequence = scope.sequence;
  record.parent = scope.parent;
  record.start_ns = scope.start_ns;
  record.end_ns = end_ns;
  record.index = scope.index;
  record.aux = scope.aux;
  record.static_attrs = scope.static_attrs;
  record.name_length = static_cast<std::uint16_t>(name.size());
  record.attrs_length = static_cast<std::uint16_t>(attrs.size());
  std::memcpy(place, &record, sizeof record);
  if (!name.empty()) std::memcpy(place + kSlotBytes, name.data(), name.size());
  if (!attrs.empty()) std::memcpy(place + kSlotBytes + name.size(), attrs.data(), attrs.size());
  scope.closing = pack_position(ring.number, ring.head.load(std::memory_order_relaxed) + slots);
  publish(ring, slots);
}

void pop_to(Lane& stack, std::uint32_t slot) noexcept {
  stack.arena_used = stack.stack[slot].text_offset;
  stack.depth.store(slot, std::memory_order_release);
}

}  // namespace

namespace detail {

void keep_text(Lane& stack, OpenScope& scope, const ScopeStart& start) noexcept {
  // A name that does not fit would leave a span without one: cut it. Attributes that do not fit are left
  // to the close, which gets them again; only a killed process misses them.
  const std::size_t room = kLaneArenaBytes - stack.arena_used;
  const std::size_t name_bytes = start.name == 0 ? std::min(start.name_text.size(), room) : 0;
  const std::size_t attrs_bytes = start.attrs.size() <= room - name_bytes ? start.attrs.size() : 0;
  char* text = stack.arena + stack.arena_used;
  if (name_bytes != 0) std::memcpy(text, start.name_text.data(), name_bytes);
  if (attrs_bytes != 0) std::memcpy(text + name_bytes, start.attrs.data(), attrs_bytes);
  scope.name_length = static_cast<std::uint16_t>(name_bytes);
  scope.attrs_length = static_cast<std::uint16_t>(attrs_bytes);
  stack.arena_used += static_cast<std::uint32_t>(name_bytes + attrs_bytes);
}

void pop_closed(Lane& stack) noexcept {
  std::uint32_t depth = stack.depth.load(std::memory_order_relaxed);
  while (depth > 0 && (stack.stack[depth - 1].flags.load(std::memory_order_acquire) & kSlotClosed) != 0) --depth;
  pop_to(stack, depth);
}

ScopeHandle refuse_depth(Lane& stack) noexcept {
  stack.lost_depth.fetch_add(1, std::memory_order_relaxed);
  return {};
}

}  // namespace detail

bool is_open(const ScopeHandle& handle) noexcept {
  if (!handle || handle.generation != generation()) return false;
  const OpenScope& scope = handle.stack->stack[handle.slot];
  return handle.slot < handle.stack->depth.load(std::memory_order_acquire) && scope.sequence == handle.sequence &&
         (scope.flags.load(std::memory_order_acquire) & kSlotClosed) == 0;
}

bool close_scope_slow(ThreadState& thread, const ScopeHandle& handle, const ScopeEnd& end, std::uint64_t end_ns) noexcept {
  if (handle.generation != thread.generation) return false;
  Lane& stack = *handle.stack;
  const std::uint32_t depth = stack.depth.load(std::memory_order_acquire);
  OpenScope& scope = stack.stack[handle.slot];
  if (handle.slot >= depth || scope.sequence != handle.sequence) return false;
  const bool foreign = stack.state.load(std::memory_order_relaxed) == LaneState::kThread && &stack != thread.lane;
  if ((scope.flags.load(std::memory_order_acquire) & kSlotClosed) != 0) {
    if (!foreign && handle.slot + 1 == depth) detail::pop_closed(stack);
    return false;
  }
  if (foreign) {
    // The owner may be pushing and popping right now: leave its stack alone, only say that this one is over.
    write_record(thread, stack, scope, end, end_ns);
    scope.flags.fetch_or(kSlotClosed, std::memory_order_release);
    return true;
  }
  for (std::uint32_t slot = depth; slot-- > handle.slot + 1;) {
    OpenScope& above = stack.stack[slot];
    if ((above.flags.load(std::memory_order_acquire) & kSlotClosed) != 0) continue;
    write_record(thread, stack, above, {.closed_by = ClosedBy::kParent}, end_ns);
  }
  write_record(thread, stack, scope, end, end_ns);
  pop_to(stack, handle.slot);
  return true;
}

void close_above(Lane& stack, std::uint32_t slot, ClosedBy closed_by) noexcept {
  const std::uint32_t depth = stack.depth.load(std::memory_order_acquire);
  if (depth <= slot) return;
  // A thread that never recorded (a task's garbage is collected there) gets a lane for it. One that ends has its
  // own, whatever the gate says.
  if (detail::t_state.lane == nullptr && this_thread() == nullptr) {
    stack.lost_spans.fetch_add(depth - slot, std::memory_order_relaxed);
    return pop_to(stack, slot);
  }
  ThreadState& thread = detail::t_state;
  const std::uint64_t now = base::monotonic_ns();
  for (std::uint32_t at = depth; at-- > slot;) {
    OpenScope& scope = stack.stack[at];
    if ((scope.flags.load(std::memory_order_acquire) & kSlotClosed) != 0) continue;
    write_record(thread, stack, scope, {.closed_by = closed_by}, now);
  }
  pop_to(stack, slot);
}

}  // namespace sonde::record
