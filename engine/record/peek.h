// Reading the open stack of another thread while that thread goes on pushing and popping. There is
// no lock by design: a reader sees what was there at some moment, or nothing.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "engine/record/journal.h"
#include "engine/record/layout.h"  // IWYU pragma: export
#include "engine/record/racy.h"

namespace sonde::record {

// An open scope as it was when it was copied.
class PeekedScope {
 public:
  // False when there is no open scope in that slot, or when it changed meanwhile.
  bool read(const Lane& lane, std::uint32_t slot) noexcept {
    const OpenScope& there = lane.stack[slot];
    if (slot >= lane.depth.load(std::memory_order_acquire)) return false;
    detail::racy_copy<std::uint64_t>(&there, storage_, sizeof(OpenScope) / sizeof(std::uint64_t));
    const std::size_t offset = std::min<std::size_t>(scope().text_offset, kLaneArenaBytes);
    const std::size_t bytes = std::min<std::size_t>(
        kLaneArenaBytes - offset, std::size_t{scope().name_length} + scope().attrs_length);
    detail::racy_copy<char>(lane.arena + offset, text_, bytes);
    text_view_ = {text_, bytes};
    stack_ = &lane;
    thread_id_ = lane.thread_id;
    std::uint64_t sequence;
    detail::racy_copy<std::uint64_t>(&there.sequence, &sequence, 1);
    return sequence == scope().sequence && sequence != 0 &&
           slot < lane.depth.load(std::memory_order_acquire);
  }

  // The session's scope; its text stays where it is. False: there is none.
  bool read_session(const Header& head) noexcept {
    detail::racy_copy<std::uint64_t>(&head.session, storage_,
                                     sizeof(OpenScope) / sizeof(std::uint64_t));
    text_view_ = {head.session_text, kSessionTextBytes};
    stack_ = nullptr;
    thread_id_ = head.session_thread_id;
    return scope().sequence != 0;
  }

  const OpenScope& scope() const noexcept { return *reinterpret_cast<const OpenScope*>(storage_); }
  std::uint64_t sequence() const noexcept { return scope().sequence; }
  std::uint32_t name() const noexcept { return scope().name; }
  // kNoIndex where it has none.
  std::int64_t index() const noexcept { return (flags() & kHasIndex) != 0 ? scope().index : -1; }
  // Name if it is not interned, then attributes; more may follow.
  std::string_view text() const noexcept { return text_view_; }
  bool closed() const noexcept { return (flags() & kSlotClosed) != 0 || scope().closing != 0; }
  // The stack that it lies on; nullptr: it is the session's.
  const Lane* stack() const noexcept { return stack_; }
  // The thread that opened it. A task's is the one that made its stack.
  std::uint64_t thread_id() const noexcept { return thread_id_; }

 private:
  std::uint8_t flags() const noexcept { return scope().flags.load(std::memory_order_relaxed); }

  alignas(OpenScope) std::byte storage_[sizeof(OpenScope)];
  char text_[kLaneArenaBytes];
  std::string_view text_view_;
  const Lane* stack_ = nullptr;
  std::uint64_t thread_id_ = 0;
};

// Any thread. Calls see(const PeekedScope&) for every scope of this process that is open now, the
// session first, the outermost of each stack first. Other threads may be recording: a scope that
// they change at this moment is seen as before or after, or not at all.
template <typename See>
void see_open_scopes(See see) {
  Journal& journal = Journal::instance();
  PeekedScope copy;
  if (copy.read_session(journal.header())) see(std::as_const(copy));
  for (std::uint32_t i = 0; i < journal.lane_count(); ++i) {
    const Lane& lane = journal.lane(i);
    if (lane.state.load(std::memory_order_acquire) == LaneState::kFree) continue;
    const std::uint32_t depth = std::min(lane.depth.load(std::memory_order_acquire), kMaxDepth);
    for (std::uint32_t slot = 0; slot < depth; ++slot) {
      if (copy.read(lane, slot) && !copy.closed()) see(std::as_const(copy));
    }
  }
}

}  // namespace sonde::record
