#include "engine/record/scope.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "engine/base/clock.h"
#include "engine/base/json_members.h"
#include "engine/base/utf8.h"
#include "engine/record/ends.h"
#include "engine/record/generation.h"
#include "engine/record/journal.h"
#include "engine/record/lane.h"
#include "engine/record/layout.h"
#include "engine/record/names.h"
#include "engine/record/peek.h"
#include "engine/record/racy.h"

namespace sonde::record {

namespace {

// Which thread opened a scope, where its text lies, and where to say that its record is there.
struct Origin {
  const char* text;  // name, then attributes
  std::uint64_t thread_id;
  std::uint64_t os_thread_id;
  std::uint64_t& closing;
};

Origin origin_of(Lane& stack, std::uint32_t slot, const char* text, const Lane& ring) {
  // A task's scope counts as opened by the thread that runs the task.
  const Lane& opener =
      stack.state.load(std::memory_order_relaxed) == LaneState::kThread ? stack : ring;
  return {text, opener.thread_id, opener.os_thread_id, stack.stack[slot].closing};
}

std::byte* put_thread(std::byte* place, std::uint64_t thread_id, std::uint64_t os_thread_id) {
  ThreadRecord record = {};
  record.kind = RecordKind::kThread;
  record.thread_id = thread_id;
  record.os_thread_id = os_thread_id;
  std::memcpy(place, &record, sizeof record);
  return place + kSlotBytes;
}

// Writes the record of one open scope into this thread's ring.
void write_record(ThreadState& thread, const OpenScope& scope, const Origin& origin,
                  const ScopeEnd& end, std::uint64_t end_ns) noexcept {
  Lane& ring = *thread.lane;
  std::string_view name(origin.text, scope.name_length);
  if (scope.name == 0 && !end.name_text.empty())
    name = base::cut_utf8(end.name_text, kMaxNameBytes);
  std::string_view attrs =
      end.replace_attrs ? end.attrs
                        : std::string_view(origin.text + scope.name_length, scope.attrs_length);
  if (name.size() + attrs.size() > kMaxPayloadBytes) attrs = {};
  // The record of another thread's scope stands between two records that name the thread. All three
  // are published together.
  const bool foreign = origin.thread_id != ring.thread_id;
  const std::uint32_t slots = 1 + text_slots(name.size() + attrs.size());
  const std::uint32_t all_slots = slots + (foreign ? 2 : 0);
  std::byte* place = reserve(ring, all_slots);
  if (place == nullptr) {
    ring.lost_spans.fetch_add(1, std::memory_order_relaxed);
    detail::racy_store(origin.closing, kNoRecord);
    return;
  }
  if (foreign) {
    place = put_thread(place, origin.thread_id, origin.os_thread_id);
    put_thread(place + std::size_t{slots} * kSlotBytes, ring.thread_id, ring.os_thread_id);
  }
  SpanRecord record = {};
  record.kind = RecordKind::kSpan;
  record.closed_by = end.closed_by;
  record.flags =
      static_cast<std::uint8_t>(scope.flags.load(std::memory_order_relaxed) & ~kSlotClosed);
  record.name = scope.name;
  record.sequence = scope.sequence;
  record.parent = scope.parent;
  record.start_ns = scope.start_ns;
  record.end_ns = std::max(end_ns, scope.start_ns);
  record.index = scope.index;
  record.aux = scope.aux;
  // The attributes of the session's span may change at this moment: the drain thread sets them when
  // a signal ends the process.
  record.static_attrs = __atomic_load_n(&scope.static_attrs, __ATOMIC_RELAXED);
  record.name_length = static_cast<std::uint16_t>(name.size());
  record.attrs_length = static_cast<std::uint16_t>(attrs.size());
  std::memcpy(place, &record, sizeof record);
  if (!name.empty()) std::memcpy(place + kSlotBytes, name.data(), name.size());
  if (!attrs.empty()) std::memcpy(place + kSlotBytes + name.size(), attrs.data(), attrs.size());
  detail::racy_store(
      origin.closing,
      pack_position(ring.number, ring.head.load(std::memory_order_relaxed) + all_slots));
  publish(ring, all_slots);
}

// This scope ends, but not through its handle.
void note_if_kept(const OpenScope& scope, std::uint64_t end_ns) noexcept {
  if (scope.kept != 0) note_end(scope.sequence, std::max(end_ns, scope.start_ns));
}

// Ends a scope on a stack that its owner may be using right now: says that it is over and leaves
// the popping to the owner. False when it was over already. `by_holder`: it ends through its
// handle.
bool end_in_place(ThreadState& thread, Lane& stack, std::uint32_t slot, const ScopeEnd& end,
                  std::uint64_t end_ns, bool by_holder) noexcept {
  if ((stack.stack[slot].flags.fetch_or(kSlotClosed, std::memory_order_acq_rel) & kSlotClosed) != 0)
    return false;
  PeekedScope copy;
  if (!copy.read(stack, slot) || copy.scope().closing != 0) return false;
  write_record(thread, copy.scope(), origin_of(stack, slot, copy.text().data(), *thread.lane), end,
               end_ns);
  if (!by_holder) note_if_kept(copy.scope(), end_ns);
  return true;
}

// Ends a scope on a stack that is this thread's to change.
void end_own(ThreadState& thread, Lane& stack, std::uint32_t slot, const ScopeEnd& end,
             std::uint64_t end_ns) noexcept {
  const OpenScope& scope = stack.stack[slot];
  write_record(thread, scope, origin_of(stack, slot, stack.arena + scope.text_offset, *thread.lane),
               end, end_ns);
}

void pop_to(Lane& stack, std::uint32_t slot) noexcept {
  stack.arena_used = stack.stack[slot].text_offset;
  stack.depth.store(slot, std::memory_order_release);
}

}  // namespace

namespace detail {

void keep_text(Lane& stack, OpenScope& scope, const ScopeStart& start) noexcept {
  // A name that does not fit is cut, since a span needs one. Attributes that do not fit are written
  // when the scope is closed; only a killed process loses them.
  const std::size_t room = kLaneArenaBytes - stack.arena_used;
  const std::size_t name_bytes = start.name == 0 ? base::cut_utf8(start.name_text, room).size() : 0;
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
  while (depth > 0 &&
         (stack.stack[depth - 1].flags.load(std::memory_order_acquire) & kSlotClosed) != 0)
    --depth;
  pop_to(stack, depth);
}

bool may_be_open(Generation opened_in) noexcept {
  return g_gate.load(std::memory_order_relaxed) != 0 && !is_void(opened_in);
}

ScopeHandle refuse_depth(Lane& stack) noexcept {
  stack.lost_depth.fetch_add(1, std::memory_order_relaxed);
  return {};
}

}  // namespace detail

void write_span(ThreadState& thread, const ClosedSpan& span) noexcept {
  Lane& ring = *thread.lane;
  std::byte* place = reserve(ring, 1);
  if (place == nullptr) {
    ring.lost_spans.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  SpanRecord record = {};
  record.kind = RecordKind::kSpan;
  record.flags = span.flags;
  record.name = span.name;
  record.sequence = span.sequence;
  record.parent = span.parent;
  record.start_ns = span.start_ns;
  record.end_ns = std::max(span.end_ns, span.start_ns);
  record.aux = span.aux;
  std::memcpy(place, &record, sizeof record);
  publish(ring, 1);
}

bool cancel_scope(const ScopeHandle& handle) noexcept {
  if (!is_open(handle) || !is_innermost(handle)) return false;
  pop_to(*handle.stack, handle.slot);
  return true;
}

void relabel_scope(const ScopeHandle& handle, std::uint32_t name, std::int64_t index) noexcept {
  if (!is_open(handle)) return;
  OpenScope& scope = handle.stack->stack[handle.slot];
  scope.name = name;
  scope.index = index;
  if (index == kNoIndex) {
    scope.flags.fetch_and(static_cast<std::uint8_t>(~kHasIndex), std::memory_order_relaxed);
  } else {
    scope.flags.fetch_or(kHasIndex, std::memory_order_relaxed);
  }
}

void add_attrs(Lane& stack, std::uint64_t since, std::string_view name,
               std::string_view members) noexcept try {
  const std::uint32_t depth = stack.depth.load(std::memory_order_acquire);
  for (std::uint32_t slot = 0; slot < depth; ++slot) {
    OpenScope& scope = stack.stack[slot];
    if ((scope.flags.load(std::memory_order_acquire) & kSlotClosed) != 0) continue;
    const bool another_thread = scope.sequence >> kSequenceBits != since >> kSequenceBits;
    if (since != 0 && (another_thread || scope.sequence < since)) continue;
    const std::string_view given(stack.arena + scope.text_offset + scope.name_length,
                                 scope.attrs_length);
    const std::string_view fixed = name_text(scope.static_attrs);
    if (base::find_member(given, name) || base::find_member(fixed, name)) continue;
    std::string all(fixed);
    if (!all.empty()) all += ',';
    all += members;
    // One store: a process killed at this moment has them or not.
    if (const std::uint32_t id = intern_rare(all))
      __atomic_store_n(&scope.static_attrs, id, __ATOMIC_RELEASE);
  }
} catch (...) {  // no memory
}

void close_beneath(ThreadState& thread, const ScopeHandle& handle, std::uint64_t now) noexcept {
  if (!is_open(handle)) return;
  Lane& stack = *handle.stack;
  const std::uint32_t depth = stack.depth.load(std::memory_order_relaxed);
  const std::uint64_t around = stack.stack[handle.slot].parent;
  for (std::uint32_t slot = handle.slot + 1; slot < depth; ++slot) {
    if (stack.stack[slot].parent == handle.sequence) stack.stack[slot].parent = around;
  }
  end_in_place(thread, stack, handle.slot, {}, now, true);
}

ScopeHandle renew_beneath(ThreadState& thread, const ScopeHandle& handle,
                          const Renewal& renewal) noexcept {
  if (!is_open(handle)) return {};
  Lane& stack = *handle.stack;
  OpenScope& scope = stack.stack[handle.slot];
  end_own(thread, stack, handle.slot, {}, renewal.end_ns);
  ScopeHandle renewed = handle;
  renewed.sequence = thread.lane->next_sequence++;
  for (std::uint32_t slot = handle.slot + 1; slot < stack.depth.load(std::memory_order_relaxed);
       ++slot) {
    if (stack.stack[slot].parent == handle.sequence) stack.stack[slot].parent = renewed.sequence;
  }
  scope.sequence = renewed.sequence;
  scope.start_ns = renewal.start_ns;
  scope.index = renewal.index;
  scope.aux = renewal.aux;
  scope.static_attrs = 0;
  if (renewal.aux != 0) {
    scope.flags.fetch_or(kHasGpu, std::memory_order_relaxed);
  } else {
    scope.flags.fetch_and(static_cast<std::uint8_t>(~kHasGpu), std::memory_order_relaxed);
  }
  scope.closing = 0;
  return renewed;
}

bool close_scope_slow(ThreadState& thread, const ScopeHandle& handle, const ScopeEnd& end,
                      std::uint64_t end_ns) noexcept {
  if (is_void(handle.generation)) return false;
  Lane& stack = *handle.stack;
  const std::uint32_t depth = stack.depth.load(std::memory_order_acquire);
  OpenScope& scope = stack.stack[handle.slot];
  if (handle.slot >= depth || scope.sequence != handle.sequence) return false;
  const bool foreign =
      stack.state.load(std::memory_order_relaxed) == LaneState::kThread && &stack != thread.lane;
  if ((scope.flags.load(std::memory_order_acquire) & kSlotClosed) != 0) {
    if (!foreign && handle.slot + 1 == depth) detail::pop_closed(stack);
    return false;
  }
  if (foreign) {
    for (std::uint32_t slot = depth; slot-- > handle.slot + 1;) {
      end_in_place(thread, stack, slot, {.closed_by = ClosedBy::kParent}, end_ns, false);
    }
    return end_in_place(thread, stack, handle.slot, end, end_ns, true);
  }
  for (std::uint32_t slot = depth; slot-- > handle.slot + 1;) {
    OpenScope& above = stack.stack[slot];
    if ((above.flags.load(std::memory_order_acquire) & kSlotClosed) != 0) continue;
    end_own(thread, stack, slot, {.closed_by = ClosedBy::kParent}, end_ns);
    note_if_kept(above, end_ns);
  }
  end_own(thread, stack, handle.slot, end, end_ns);
  pop_to(stack, handle.slot);
  return true;
}

void close_above(Lane& stack, std::uint32_t slot, ClosedBy closed_by) noexcept {
  const std::uint32_t depth = stack.depth.load(std::memory_order_acquire);
  if (depth <= slot) return;
  const std::uint64_t now = base::monotonic_ns();
  // A thread that never recorded (a task was garbage-collected on it), or whose lane is void, gets
  // a lane for this. A thread that ends has one, whether or not the gate is open.
  ThreadState* const thread = detail::thread_for_closing();
  if (thread == nullptr) {
    stack.lost_spans.fetch_add(depth - slot, std::memory_order_relaxed);
    for (std::uint32_t at = depth; at-- > slot;) {
      const OpenScope& scope = stack.stack[at];
      if ((scope.flags.load(std::memory_order_acquire) & kSlotClosed) == 0)
        note_if_kept(scope, now);
    }
    return pop_to(stack, slot);
  }
  for (std::uint32_t at = depth; at-- > slot;) {
    OpenScope& scope = stack.stack[at];
    if ((scope.flags.load(std::memory_order_acquire) & kSlotClosed) != 0) continue;
    end_own(*thread, stack, at, {.closed_by = closed_by}, now);
    note_if_kept(scope, now);
  }
  pop_to(stack, slot);
}

void close_everything(ThreadState& thread) noexcept {
  Journal& journal = Journal::instance();
  const std::uint64_t now = base::monotonic_ns();
  for (std::uint32_t i = 0; i < journal.lane_count(); ++i) {
    Lane& stack = journal.lane(i);
    if (stack.state.load(std::memory_order_acquire) == LaneState::kFree) continue;
    for (std::uint32_t slot = std::min(stack.depth.load(std::memory_order_acquire), kMaxDepth);
         slot-- > 0;) {
      end_in_place(thread, stack, slot, {.closed_by = ClosedBy::kShutdown}, now, false);
    }
  }
  Header& head = journal.header();
  if (head.session.sequence == 0) return;
  write_record(thread, head.session,
               {head.session_text, head.session_thread_id, 0, head.session.closing}, {}, now);
  __atomic_store_n(&head.session.sequence, 0, __ATOMIC_RELAXED);
}

}  // namespace sonde::record
