// Opening and closing scopes. A scope is closed by its handle, not by its place on the stack.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#include "engine/base/clock.h"
#include "engine/base/placement.h"
#include "engine/record/generation.h"
#include "engine/record/lane.h"
#include "engine/record/layout.h"  // IWYU pragma: export
#include "engine/record/names.h"

namespace sonde::record {

// What is known when a scope opens. Text that is not interned goes along as text.
struct ScopeStart {
  std::uint32_t name = 0;          // interned; 0: name_text
  std::uint32_t static_attrs = 0;  // interned JSON members; 0: none
  std::int64_t index = 0;
  std::uint8_t flags = 0;  // SpanFlags
  bool kept = false;       // see OpenScope
  std::uint64_t aux = 0;
  std::uint64_t start_ns = 0;  // monotonic; 0: now
  std::string_view name_text = {};
  std::string_view attrs = {};  // JSON members
};

// As ScopeStart, for a scope whose name is interned and that has no text.
struct PlainStart {
  std::uint32_t name = 0, static_attrs = 0;
  std::int64_t index = 0;
  std::uint8_t flags = 0;
  std::uint64_t aux = 0;
  std::uint64_t start_ns = 0;  // never 0
};

struct ScopeHandle {
  Lane* stack = nullptr;  // nullptr: not recorded
  std::uint64_t sequence = 0;
  std::uint32_t slot = 0;
  Generation generation = 0;
  explicit operator bool() const noexcept { return stack != nullptr; }
};

namespace detail {
// Cold: the handle is not of the present generation. True: recording is on, and the scope may still
// be open, across the beginning or the end of a session.
[[gnu::cold, gnu::noinline]] bool may_be_open(Generation opened_in) noexcept;
}  // namespace detail

// True while the handle's scope is open and recording is on.
SONDE_HOT inline bool is_open(const ScopeHandle& handle) noexcept {
  if (!handle) return false;
  if (handle.generation != detail::g_gate.load(std::memory_order_relaxed) &&
      !detail::may_be_open(handle.generation)) [[unlikely]]
    return false;
  const OpenScope& scope = handle.stack->stack[handle.slot];
  return handle.slot < handle.stack->depth.load(std::memory_order_acquire) &&
         scope.sequence == handle.sequence &&
         (scope.flags.load(std::memory_order_acquire) & kSlotClosed) == 0;
}

namespace detail {
// Cold: keeps the text of an open scope in the lane's arena, as far as it has room.
void keep_text(Lane& stack, OpenScope& scope, const ScopeStart& start) noexcept;
// Cold: the top of the stack was closed from another thread.
void pop_closed(Lane& stack) noexcept;
ScopeHandle refuse_depth(Lane& stack) noexcept;
}  // namespace detail

namespace detail {

template <typename Start>
[[gnu::always_inline]] inline ScopeHandle open(ThreadState& thread, Lane& stack,
                                               const Start& start) noexcept {
  constexpr bool kHasText = requires { start.attrs; };
  std::uint32_t depth = stack.depth.load(std::memory_order_relaxed);
  if (depth > 0 && (stack.stack[depth - 1].flags.load(std::memory_order_relaxed) & kSlotClosed))
      [[unlikely]] {
    pop_closed(stack);
    depth = stack.depth.load(std::memory_order_relaxed);
  }
  if (depth == kMaxDepth) [[unlikely]]
    return refuse_depth(stack);
  OpenScope& scope = stack.stack[depth];
  scope.sequence = thread.lane->next_sequence++;
  scope.parent = depth > 0 ? stack.stack[depth - 1].sequence : parent_of_stack(stack);
  scope.index = start.index;
  scope.closing = 0;
  scope.aux = start.aux;
  scope.name = start.name;
  scope.static_attrs = start.static_attrs;
  scope.flags.store(start.flags, std::memory_order_relaxed);
  if constexpr (kHasText) {
    scope.kept = start.kept;
  } else {
    scope.kept = 0;
  }
  scope.name_length = 0;
  scope.attrs_length = 0;
  scope.text_offset = static_cast<std::uint16_t>(stack.arena_used);
  if constexpr (kHasText) {
    if (start.name == 0 || !start.attrs.empty()) [[unlikely]]
      keep_text(stack, scope, start);
  }
  const ScopeHandle handle{&stack, scope.sequence, depth, thread.generation};
  const bool clock = kHasText && start.start_ns == 0;
  scope.start_ns = clock ? base::monotonic_ns() : start.start_ns;
  stack.depth.store(depth + 1, std::memory_order_release);
  return handle;
}

}  // namespace detail

// Hot. `stack` is the thread's own lane, or the lane of the task that it runs. The handle is empty
// when the stack is full.
inline ScopeHandle open_scope(ThreadState& thread, Lane& stack, const ScopeStart& start) noexcept {
  return detail::open(thread, stack, start);
}
inline ScopeHandle open_plain(ThreadState& thread, Lane& stack, const PlainStart& start) noexcept {
  return detail::open(thread, stack, start);
}

// Attributes to write instead of those given at the start.
struct ScopeEnd {
  ClosedBy closed_by = ClosedBy::kSelf;
  bool replace_attrs = false;
  std::string_view attrs = {};
  std::string_view name_text = {};  // of a name that is not interned, in full
};

// Everything that is not plain: text to write, scopes above it still open, another thread's stack.
// Not inlined into close_scope, which would have to save more registers.
[[gnu::cold, gnu::noinline]] bool close_scope_slow(ThreadState& thread, const ScopeHandle& handle,
                                                   const ScopeEnd& end,
                                                   std::uint64_t end_ns) noexcept;

// One test for everything unusual: not on top, no longer there, text to copy, closed elsewhere. The
// answer is nearly always yes, so all conditions are combined into one comparison.
inline bool is_plain(const ThreadState& thread, const ScopeHandle& handle) noexcept {
  const Lane& stack = *handle.stack;
  const OpenScope& scope = stack.stack[handle.slot];
  const std::uint64_t other = (handle.generation ^ thread.generation) |
                              (stack.depth.load(std::memory_order_relaxed) ^ (handle.slot + 1)) |
                              (scope.sequence ^ handle.sequence) | scope.name_length |
                              scope.attrs_length |
                              (scope.flags.load(std::memory_order_relaxed) & kSlotClosed) |
                              (stack.thread_id ^ thread.lane->thread_id);
  return other == 0 && scope.name != 0;
}

// Writes the record of a plain scope and pops it. nullptr: no room, which is counted.
[[gnu::always_inline]] inline SpanRecord* close_plain(ThreadState& thread,
                                                      const ScopeHandle& handle, ClosedBy closed_by,
                                                      std::uint64_t now,
                                                      Certainty certainty) noexcept {
  Lane& stack = *handle.stack;
  OpenScope& scope = stack.stack[handle.slot];
  Lane& ring = *thread.lane;
  auto* record = reinterpret_cast<SpanRecord*>(reserve(ring, 1));
  if (record != nullptr) [[likely]] {
    record->kind = RecordKind::kSpan;
    record->closed_by = closed_by;
    record->flags = scope.flags.load(std::memory_order_relaxed);
    record->certainty = certainty;
    record->name = scope.name;
    record->sequence = scope.sequence;
    record->parent = scope.parent;
    record->start_ns = scope.start_ns;
    record->end_ns = now;
    record->index = scope.index;
    record->aux = scope.aux;
    record->static_attrs = scope.static_attrs;
    record->name_length = 0;
    record->attrs_length = 0;
    // Killed between the next two stores, the scope is known to be closed: its record is there.
    scope.closing = pack_position(ring.number, ring.head.load(std::memory_order_relaxed) + 1);
    publish(ring, 1);
  } else {
    scope.closing = kNoRecord;
    ring.lost_spans.fetch_add(1, std::memory_order_relaxed);
  }
  stack.depth.store(handle.slot, std::memory_order_release);
  return record;
}

// Hot. `now` is the monotonic clock. False when the scope was closed before (by its parent, by
// shutdown) or belongs to a parent process.
inline bool close_scope(ThreadState& thread, const ScopeHandle& handle, const ScopeEnd& end,
                        std::uint64_t now) noexcept {
  if (!is_plain(thread, handle) || end.replace_attrs) [[unlikely]]
    return close_scope_slow(thread, handle, end, now);
  close_plain(thread, handle, end.closed_by, now, Certainty::kCertain);
  return true;
}

// A span that never was on the stack, or is no longer.
struct ClosedSpan {
  std::uint64_t sequence = 0, parent = 0, start_ns = 0, end_ns = 0, aux = 0;
  std::uint32_t name = 0;
  std::uint8_t flags = 0;
};
void write_span(ThreadState& thread, const ClosedSpan& span) noexcept;

// For the owner of the stack. Takes the innermost scope back as if it had never been opened; false
// when the handle's is not the innermost.
bool cancel_scope(const ScopeHandle& handle) noexcept;
inline constexpr std::int64_t kNoIndex = std::numeric_limits<std::int64_t>::min();
// Gives an open scope another name and index, once it is known what it is.
void relabel_scope(const ScopeHandle& handle, std::uint32_t name, std::int64_t index) noexcept;
inline bool is_innermost(const ScopeHandle& handle) noexcept {
  return handle.stack->depth.load(std::memory_order_relaxed) == handle.slot + 1;
}
// Where one scope lies relative to another. Both handles are of open scopes.
inline bool is_inside(const ScopeHandle& inner, const ScopeHandle& outer) noexcept {
  return inner.stack == outer.stack && inner.slot > outer.slot;
}
inline bool is_directly_inside(const ScopeHandle& inner, const ScopeHandle& outer) noexcept {
  return inner.stack == outer.stack && inner.slot == outer.slot + 1;
}
// The number of scopes around this one on its stack.
inline std::uint32_t scopes_around(const ScopeHandle& handle) noexcept { return handle.slot; }

// For the owner of the stack. Adds attributes to the scopes that are open on it: JSON members, the
// first of which is called `name`. A scope that has an attribute of that name keeps its own.
// `since`: only scopes that this thread has opened from that sequence on; 0: all. The text is
// interned (intern_rare), so this is for rare events.
void add_attrs(Lane& stack, std::uint64_t since, std::string_view name,
               std::string_view members) noexcept;

// For the owner of the stack. Closes a scope that need not be the innermost. The scopes inside it
// stay open and become children of its parent.
void close_beneath(ThreadState& thread, const ScopeHandle& handle, std::uint64_t now) noexcept;
// As close_beneath(), but another scope of the same name begins in its place and becomes the parent
// of the scopes inside.
struct Renewal {
  std::int64_t index = 0;
  std::uint64_t end_ns = 0;    // of the scope that ends
  std::uint64_t start_ns = 0;  // of the scope that begins
  std::uint64_t aux = 0;       // of the scope that begins; 0: it has no GPU time
};
ScopeHandle renew_beneath(ThreadState& thread, const ScopeHandle& handle,
                          const Renewal& renewal) noexcept;

// Closes every scope of this stack from `slot` upwards, innermost first.
void close_above(Lane& stack, std::uint32_t slot, ClosedBy closed_by) noexcept;

// Ends every scope of this process, innermost first, and the session last; the records go into this
// thread's ring. The caller keeps others from recording (it holds the GIL, and the gate is closed):
// a scope that its own thread closes at the very same moment may be recorded twice.
void close_everything(ThreadState& thread) noexcept;

// For C++ code: SONDE_SCOPE("forward"); records from here to the end of the block.
class ScopeGuard {
 public:
  explicit ScopeGuard(std::uint32_t name) noexcept : thread_(this_thread()) {
    if (thread_ != nullptr) [[likely]]
      handle_ = open_scope(*thread_, *thread_->lane, {.name = name});
  }
  ~ScopeGuard() {
    if (handle_) [[likely]]
      close_scope(*thread_, handle_, {}, base::monotonic_ns());
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  ThreadState* thread_;
  ScopeHandle handle_;
};

#define SONDE_CONCAT_(a, b) a##b
#define SONDE_CONCAT(a, b) SONDE_CONCAT_(a, b)
#define SONDE_SCOPE(text)                                                                         \
  static const std::uint32_t SONDE_CONCAT(sonde_name_, __LINE__) = ::sonde::record::intern(text); \
  const ::sonde::record::ScopeGuard SONDE_CONCAT(sonde_scope_,                                    \
                                                 __LINE__)(SONDE_CONCAT(sonde_name_, __LINE__))

}  // namespace sonde::record
