// The numbers that docs/formats/journal.md prints and that a reader in another language would rely
// on. A change of one of them changes kJournalVersion, the document and this file together.
#include "engine/record/layout.h"

#include <gtest/gtest.h>

namespace sonde::record {
namespace {

static_assert(kJournalVersion == 1);
static_assert(kNamesOffset == 4096 && kNamesBytes == 1048576 && kBlocksOffset == 1052672);
static_assert(kBlockBytes == 32768 && kSlotBytes == 64 && kSlotsPerBlock == 511);
static_assert(kMaxDepth == 64 && kMaxPayloadBytes == 16384 && kSequenceBits == 40);

static_assert(offsetof(Header, magic) == 0 && offsetof(Header, version) == 8 &&
              offsetof(Header, header_bytes) == 12);
static_assert(offsetof(Header, pid) == 16 && offsetof(Header, rank) == 20 &&
              offsetof(Header, local_rank) == 24 && offsetof(Header, world_size) == 28);
static_assert(offsetof(Header, key) == 32 && offsetof(Header, anchor) == 48 &&
              offsetof(Header, host) == 64);
static_assert(offsetof(Header, names_used) == 128 && offsetof(Header, block_count) == 136 &&
              offsetof(Header, clean) == 140);
static_assert(offsetof(Header, alive_ns) == 144 && offsetof(Header, lost_records) == 152);
static_assert(offsetof(Header, pending) == 160 && offsetof(Header, pending_id) == 168 &&
              offsetof(Header, pending_created_ns) == 184);
static_assert(offsetof(Header, session) == 192 && offsetof(Header, ended) == 2312);

static_assert(offsetof(OpenScope, sequence) == 0 && offsetof(OpenScope, parent) == 8 &&
              offsetof(OpenScope, start_ns) == 16 && offsetof(OpenScope, index) == 24 &&
              offsetof(OpenScope, closing) == 32 && offsetof(OpenScope, aux) == 40 &&
              offsetof(OpenScope, name) == 48 && offsetof(OpenScope, static_attrs) == 52 &&
              offsetof(OpenScope, text_offset) == 56 && offsetof(OpenScope, name_length) == 58 &&
              offsetof(OpenScope, attrs_length) == 60 && offsetof(OpenScope, flags) == 62);

static_assert(offsetof(SpanRecord, closed_by) == 1 && offsetof(SpanRecord, flags) == 2 &&
              offsetof(SpanRecord, name) == 4 && offsetof(SpanRecord, sequence) == 8 &&
              offsetof(SpanRecord, parent) == 16 && offsetof(SpanRecord, start_ns) == 24 &&
              offsetof(SpanRecord, end_ns) == 32 && offsetof(SpanRecord, index) == 40 &&
              offsetof(SpanRecord, aux) == 48 && offsetof(SpanRecord, static_attrs) == 56 &&
              offsetof(SpanRecord, name_length) == 60 && offsetof(SpanRecord, attrs_length) == 62);

static_assert(offsetof(MarkRecord, type) == 1 && offsetof(MarkRecord, summary) == 2 &&
              offsetof(MarkRecord, on_open_scope) == 3 && offsetof(MarkRecord, name) == 4 &&
              offsetof(MarkRecord, sequence) == 8 && offsetof(MarkRecord, span) == 16 &&
              offsetof(MarkRecord, ts_ns) == 24 && offsetof(MarkRecord, value) == 32 &&
              offsetof(MarkRecord, static_attrs) == 40 && offsetof(MarkRecord, name_length) == 44 &&
              offsetof(MarkRecord, attrs_length) == 46 && offsetof(MarkRecord, text_length) == 48);

static_assert(offsetof(ThreadRecord, thread_id) == 8 && offsetof(ThreadRecord, os_thread_id) == 16);

static_assert(offsetof(BlockHeader, type) == 0 && offsetof(BlockHeader, next) == 4 &&
              offsetof(BlockHeader, base) == 8 && offsetof(BlockHeader, end) == 16);

static_assert(offsetof(RingTail, position) == 0 && offsetof(RingTail, thread_id) == 8 &&
              offsetof(RingTail, block) == 16);

static_assert(kLaneBytes == 8128 && kLaneArenaBytes == 3840);
static_assert(offsetof(Lane, head) == 0 && offsetof(Lane, next_sequence) == 8 &&
              offsetof(Lane, depth) == 16 && offsetof(Lane, number) == 32 &&
              offsetof(Lane, lost_spans) == 48 && offsetof(Lane, lost_marks) == 56);
static_assert(offsetof(Lane, tail) == 64 && offsetof(Lane, pending_tail) == 88);
static_assert(offsetof(Lane, state) == 128 && offsetof(Lane, first_block) == 132 &&
              offsetof(Lane, thread_id) == 136 && offsetof(Lane, os_thread_id) == 144 &&
              offsetof(Lane, inherited_parent) == 152 && offsetof(Lane, lost_depth) == 160);
static_assert(offsetof(Lane, stack) == 192 && offsetof(Lane, arena) == 4288);

static_assert(static_cast<int>(RecordKind::kSpan) == 1 &&
              static_cast<int>(RecordKind::kMark) == 2 &&
              static_cast<int>(RecordKind::kThread) == 3);
static_assert(static_cast<int>(BlockType::kLanes) == 1 && static_cast<int>(BlockType::kRing) == 2);
static_assert(static_cast<int>(LaneState::kThread) == 1 && static_cast<int>(LaneState::kTask) == 2);

TEST(Layout, FourLanesAndAHeaderFillABlock) {
  EXPECT_LE(kSlotBytes + 4 * sizeof(Lane), kBlockBytes);
}

TEST(Layout, LargestRecordFitsABlock) {
  EXPECT_LE(1 + text_slots(kMaxPayloadBytes), kSlotsPerBlock);
}

TEST(Layout, TextTakesWholeSlots) {
  EXPECT_EQ(text_slots(0), 0u);
  EXPECT_EQ(text_slots(1), 1u);
  EXPECT_EQ(text_slots(64), 1u);
  EXPECT_EQ(text_slots(65), 2u);
}

}  // namespace
}  // namespace sonde::record
