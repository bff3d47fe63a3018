// What tests of other folders need of the journal's slots: states that a kill leaves between two
// stores, damage, and records that no code of the engine makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "engine/record/journal.h"
#include "engine/record/layout.h"
#include "engine/record/provisional.h"
#include "engine/record/scope.h"

namespace sonde::testing {

// -- open scopes --

// The record of this closed scope is there, and its stack still says that it is open.
inline void leave_on_stack(const record::ScopeHandle& closed) {
  closed.stack->depth.store(closed.slot + 1);
}

// The slot says that its record comes next in the ring.
inline void say_record_comes(const record::ScopeHandle& scope) {
  scope.stack->stack[scope.slot].closing =
      record::pack_position(scope.stack->number, scope.stack->head.load() + 1);
}

inline void say_record_was_lost(const record::ScopeHandle& scope) {
  scope.stack->stack[scope.slot].closing = record::kNoRecord;
}

// Another thread has closed it.
inline void flag_as_closed(const record::ScopeHandle& scope) {
  scope.stack->stack[scope.slot].flags.fetch_or(record::kSlotClosed);
}

inline std::uint64_t outermost_sequence(const record::Lane& stack) {
  return stack.stack[0].sequence;
}

inline void damage_stack(record::Lane& lane) {
  lane.state.store(record::LaneState::kThread);
  lane.depth.store(0xFFFFFFFF);
  for (record::OpenScope& scope : lane.stack) {
    scope.sequence = 5;
    scope.text_offset = scope.name_length = scope.attrs_length = 0xFFFF;
  }
}

// -- rings --

// The tail that will be once this many slots from the first on are in the spool.
inline void announce_slots(record::Lane& lane, std::uint64_t slots) {
  lane.pending_tail = {slots, lane.thread_id, lane.first_block.load(), 0};
}
inline void announce_all(record::Lane& lane) { announce_slots(lane, lane.head.load()); }

// Everything in the ring is in the spool.
inline void move_tail_to_end(record::Lane& lane) {
  lane.tail = lane.pending_tail = {lane.head.load(), lane.thread_id, lane.block, 0};
}

inline record::RingTail tail_of(const record::Lane& lane) { return lane.tail; }

// Killed between the words of a tail: the position is the new one, the block is the first.
inline void copy_tail_by_half(record::Lane& lane, const record::RingTail& announced) {
  lane.tail.block = lane.first_block.load();
  lane.pending_tail = announced;
  lane.tail.position = announced.position;
}

inline std::int64_t lost_spans(const record::Lane& lane) {
  return static_cast<std::int64_t>(lane.lost_spans.load());
}

inline record::Header& own_header() { return record::Journal::instance().header(); }

// -- records --

// Spans whose place in the tree is not certain yet.
class ProvisionalRecords {
 public:
  record::Provisional add(std::uint64_t parent) {
    record::SpanRecord& record = records_.emplace_back();
    record.certainty = record::Certainty::kProvisional;
    record.sequence = records_.size();
    record.parent = parent;
    return record::Provisional(&record);
  }
  std::size_t size() const { return records_.size(); }
  std::size_t certain() const {
    std::size_t count = 0;
    for (const record::SpanRecord& record : records_)
      count += record.certainty == record::Certainty::kCertain ? 1 : 0;
    return count;
  }

 private:
  std::deque<record::SpanRecord> records_;
};

}  // namespace sonde::testing
