// The open scopes of a stack, for code outside this folder, which does not touch slots.
//
// For the thread that runs the stack: nothing here is synchronised with a thread that pushes or
// pops. The functions are small and inline because the hooks call them on every training step.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/record/lane.h"
#include "engine/record/layout.h"  // IWYU pragma: export
#include "engine/record/scope.h"

namespace sonde::record {

// One slot of a stack. Valid until the next scope is opened or closed there.
class ScopeView {
 public:
  ScopeView() = default;
  explicit ScopeView(const OpenScope& scope) noexcept : scope_(&scope) {}

  explicit operator bool() const noexcept { return scope_ != nullptr; }
  std::uint64_t sequence() const noexcept { return scope_->sequence; }
  std::uint64_t parent() const noexcept { return scope_->parent; }
  std::uint64_t start_ns() const noexcept { return scope_->start_ns; }
  std::uint32_t name() const noexcept { return scope_->name; }
  std::uint32_t static_attrs() const noexcept { return scope_->static_attrs; }
  std::uint8_t flags() const noexcept { return scope_->flags.load(std::memory_order_relaxed); }
  // A slot that another thread has closed stays on the stack until its owner pops it.
  bool is_closed() const noexcept { return (flags() & kSlotClosed) != 0; }
  // kNoIndex where it has none.
  std::int64_t index() const noexcept {
    return (flags() & kHasIndex) != 0 ? scope_->index : kNoIndex;
  }
  bool has_gpu() const noexcept { return (flags() & kHasGpu) != 0; }
  // The GPU's event where the scope began; 0: it has none.
  std::uint32_t start_event() const noexcept {
    return has_gpu() ? static_cast<std::uint32_t>(scope_->aux) : 0;
  }

 private:
  const OpenScope* scope_ = nullptr;
};

// Which lane of the journal the stack is. A lane is given to another thread or task once its owner
// is gone; its tenancy counts how often that happened.
inline std::uint32_t number_of(const Lane& stack) noexcept { return stack.number; }
inline std::uint64_t tenancy_of(const Lane& stack) noexcept { return stack.tenancy; }
// As pthread_self returns it, which is Python's ident.
inline std::uint64_t thread_id_of(const ThreadState& thread) noexcept {
  return thread.lane->thread_id;
}

inline std::uint32_t depth_of(const Lane& stack) noexcept {
  return stack.depth.load(std::memory_order_relaxed);
}

namespace detail {
// `slot` is below the depth of the stack.
inline ScopeView scope_at(const Lane& stack, std::uint32_t slot) noexcept {
  return ScopeView(stack.stack[slot]);
}
}  // namespace detail

// The slot of this handle, whatever is in it now: ask is_open first where that is not certain.
inline ScopeView view_of(const ScopeHandle& handle) noexcept {
  return detail::scope_at(*handle.stack, handle.slot);
}
// The innermost scope, which another thread may have closed; empty: nothing is open.
inline ScopeView top_of(const Lane& stack) noexcept {
  const std::uint32_t depth = depth_of(stack);
  return depth > 0 ? detail::scope_at(stack, depth - 1) : ScopeView();
}
// The same where the depth of the stack was just read and is not 0.
inline ScopeView top_of(const Lane& stack, std::uint32_t depth) noexcept {
  return detail::scope_at(stack, depth - 1);
}
// The scope that lies directly inside this one, which is not the innermost.
inline ScopeView above(const ScopeHandle& handle) noexcept {
  return detail::scope_at(*handle.stack, handle.slot + 1);
}
// The outermost of the scopes that are open inside this one; empty: there is none.
inline ScopeView first_inside(const ScopeHandle& handle) noexcept {
  const std::uint32_t depth = depth_of(*handle.stack);
  for (std::uint32_t slot = handle.slot + 1; slot < depth; ++slot) {
    if (const ScopeView scope = detail::scope_at(*handle.stack, slot); !scope.is_closed())
      return scope;
  }
  return {};
}
// Shows `see` every open scope of the stack, the innermost first.
template <typename See>
void see_scopes(const Lane& stack, See see) noexcept {
  for (std::uint32_t slot = depth_of(stack); slot-- > 0;) {
    if (const ScopeView scope = detail::scope_at(stack, slot); !scope.is_closed()) see(scope);
  }
}
// The innermost open scope that `fits` accepts; empty: there is none.
template <typename Fits>
ScopeView innermost_where(const Lane& stack, Fits fits) noexcept {
  for (std::uint32_t slot = depth_of(stack); slot-- > 0;) {
    const ScopeView scope = detail::scope_at(stack, slot);
    if (!scope.is_closed() && fits(scope)) return scope;
  }
  return {};
}

// Takes scopes off the top that another thread has closed.
inline void pop_closed(Lane& stack) noexcept {
  if (const ScopeView top = top_of(stack); top && top.is_closed()) [[unlikely]]
    detail::pop_closed(stack);
}

// Makes an open scope end at the GPU event that `event` returns. `event` is called only if the
// scope has GPU time.
template <typename Event>
[[gnu::always_inline]] inline void end_on_gpu(const ScopeHandle& handle, Event event) noexcept {
  OpenScope& scope = handle.stack->stack[handle.slot];
  if ((scope.flags.load(std::memory_order_relaxed) & kHasGpu) != 0)
    scope.aux |= std::uint64_t{event()} << 32;
}
// Replaces the attributes that an open scope began with. `attrs` are interned.
inline void set_static_attrs(const ScopeHandle& handle, std::uint32_t attrs) noexcept {
  handle.stack->stack[handle.slot].static_attrs = attrs;
}
// What can be changed of a scope in its slot: its name and its attributes, both interned.
class ScopeEdit : public ScopeView {
 public:
  explicit ScopeEdit(OpenScope& scope) noexcept : ScopeView(scope), scope_(scope) {}
  void rename(std::uint32_t name) noexcept { scope_.name = name; }
  void set_static_attrs(std::uint32_t attrs) noexcept { scope_.static_attrs = attrs; }

 private:
  OpenScope& scope_;
};
// Hands `edit` every scope of the stack, the innermost first, also those that another thread has
// closed.
template <typename Edit>
void edit_scopes(Lane& stack, Edit edit) noexcept {
  for (std::uint32_t slot = depth_of(stack); slot-- > 0;) {
    ScopeEdit scope(stack.stack[slot]);
    edit(scope);
  }
}

// The sequence that the next scope or mark of this thread gets.
inline std::uint64_t next_sequence(const ThreadState& thread) noexcept {
  return thread.lane->next_sequence;
}
// Takes that sequence, for a span that was never on the stack (write_span).
inline std::uint64_t take_sequence(ThreadState& thread) noexcept {
  return thread.lane->next_sequence++;
}
// How many of this thread's sequences are scopes.
inline std::uint64_t scopes_opened(const ThreadState& thread) noexcept {
  return thread.lane->next_sequence - thread.marks;
}

}  // namespace sonde::record
