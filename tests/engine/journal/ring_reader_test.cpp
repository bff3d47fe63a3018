// The reader on rings written by hand: in order where they are whole, unharmed where they are not.
#include "engine/journal/ring_reader.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/support/journal_image.h"

namespace sonde::journal {
namespace {

using record::kSlotsPerBlock;
using testing::JournalImage;

struct Reading {
  model::Batch batch;
  record::RingTail cursor = {};
  std::vector<std::uint32_t> finished;
  std::uint64_t damaged = 0;
  bool more = false;
};

Reading read(JournalImage& image, std::size_t limit = ~std::size_t{0},
             std::uint64_t until = ~std::uint64_t{0}) {
  Reading reading;
  RingReader reader(image.view());
  reading.more =
      reader.read(image.lane(0), reading.cursor, limit, reading.batch, &reading.finished, until);
  reading.damaged = reader.damaged();
  return reading;
}

// Lane 0 with `spans` spans in blocks 2, 3, 4...
JournalImage with_spans(std::uint64_t spans) {
  JournalImage image;
  const std::uint32_t name = image.name("work");
  for (std::uint64_t i = 0; i < spans; ++i) {
    const auto number = static_cast<std::uint32_t>(2 + i / kSlotsPerBlock);
    const auto index = static_cast<std::uint32_t>(i % kSlotsPerBlock);
    if (index == 0) {
      image.ring(number, i);
      if (number > 2) image.link(number - 1, number, i);
    }
    image.put(number, index, JournalImage::span(i + 1, name));
  }
  image.lane(0).first_block.store(2);
  image.lane(0).head.store(spans);
  return image;
}

// Looks whether there is room for the marks of the span when its GPU events are given back.
class RoomAtResolve : public OwnSpans {
 public:
  explicit RoomAtResolve(const model::Batch& batch) : batch_(batch) {}
  Uncertain uncertain(std::uint64_t) override { return Uncertain::kRead; }
  bool resolve(const GpuEvents&, model::Span&) override {
    room_ = batch_.mark_ids.capacity() - batch_.mark_ids.size();
    return true;
  }
  std::size_t room() const { return room_; }

 private:
  const model::Batch& batch_;
  std::size_t room_ = 0;
};

// If the marks found no memory afterwards, the span would be read again, and its events would be
// given back twice.
TEST(RingReader, GivesGpuEventsBackOnlyOnceNothingCanFail) {
  JournalImage image;
  image.ring(2, 0);
  for (std::uint32_t i = 0; i < 3; ++i) {
    record::MarkRecord mark = {};
    mark.kind = record::RecordKind::kMark;
    mark.name = image.name("loss");
    mark.sequence = 10 + i;
    mark.span = 1;
    mark.on_open_scope = 1;
    image.put(2, i, mark);
  }
  record::SpanRecord span = JournalImage::span(1, image.name("work"));
  span.flags = record::kHasGpu;
  image.put(2, 3, span);
  image.lane(0).first_block.store(2);
  image.lane(0).head.store(4);

  model::Batch batch;
  RoomAtResolve own(batch);
  RingReader reader(image.view(), &own);
  record::RingTail cursor = {};
  reader.read(image.lane(0), cursor, ~std::size_t{0}, batch, nullptr);
  ASSERT_EQ(batch.spans.size(), 1u);
  EXPECT_EQ(batch.spans[0].mark_id_count, 3u);
  EXPECT_GE(own.room(), 3u);
}

TEST(RingReader, FollowsTheChainOfBlocks) {
  JournalImage image = with_spans(1500);
  const Reading reading = read(image);
  EXPECT_EQ(reading.batch.spans.size(), 1500u);
  EXPECT_EQ(reading.finished, (std::vector<std::uint32_t>{2, 3}));
  EXPECT_EQ(reading.cursor.position, 1500u);
  EXPECT_EQ(reading.cursor.block, 4u);
  EXPECT_EQ(reading.damaged, 0u);
  EXPECT_FALSE(reading.more);
  for (std::size_t i = 0; i < 1500; ++i)
    EXPECT_EQ(reading.batch.spans[i].id, base::make_id(image.header().key, i + 1));
}

TEST(RingReader, LimitStopsAndTheCursorGoesOn) {
  JournalImage image = with_spans(1500);
  RingReader reader(image.view());
  record::RingTail cursor = {};
  std::size_t seen = 0;
  for (bool more = true; more;) {
    model::Batch batch;
    more = reader.read(image.lane(0), cursor, 400, batch, nullptr);
    EXPECT_EQ(batch.spans.size(), more ? 400u : 300u);
    for (const model::Span& span : batch.spans)
      EXPECT_EQ(span.id, base::make_id(image.header().key, ++seen));
  }
  EXPECT_EQ(seen, 1500u);
}

TEST(RingReader, GoalEndsThePassAlthoughTheRingGoesOn) {
  JournalImage image = with_spans(1500);
  const Reading reading = read(image, ~std::size_t{0}, 700);
  EXPECT_EQ(reading.batch.spans.size(), 700u);
  EXPECT_FALSE(reading.more);
}

TEST(RingReader, BlockThatEndedEarlyIsLeftEarly) {
  JournalImage image;
  const std::uint32_t name = image.name("work");
  image.ring(2, 0);
  image.put(2, 0, JournalImage::span(1, name));
  image.ring(5, 1);  // a long record did not fit behind the first one
  image.link(2, 5, 1);
  image.put(5, 0, JournalImage::span(2, name));
  image.lane(0).first_block.store(2);
  image.lane(0).head.store(2);
  const Reading reading = read(image);
  EXPECT_EQ(reading.batch.spans.size(), 2u);
  EXPECT_EQ(reading.damaged, 0u);
}

TEST(RingReader, NothingIsReadBeyondTheHead) {
  JournalImage image = with_spans(10);
  image.lane(0).head.store(4);
  EXPECT_EQ(read(image).batch.spans.size(), 4u);
}

TEST(RingReader, ThreadRecordsNameTheThreadAndCountForNothing) {
  JournalImage image;
  const std::uint32_t name = image.name("work");
  image.ring(2, 0);
  for (std::uint32_t i = 0; i < 100; ++i) {
    record::ThreadRecord thread = {};
    thread.kind = record::RecordKind::kThread;
    thread.thread_id = 1000 + i;
    image.put(2, 2 * i, thread);
    image.put(2, 2 * i + 1, JournalImage::span(i + 1, name));
  }
  image.lane(0).first_block.store(2);
  image.lane(0).head.store(200);
  const Reading reading = read(image, 100);
  ASSERT_EQ(reading.batch.spans.size(), 100u) << "a limit is a number of spans and marks";
  EXPECT_FALSE(reading.more);
  for (std::uint32_t i = 0; i < 100; ++i) EXPECT_EQ(reading.batch.spans[i].thread_id, 1000 + i);
  EXPECT_EQ(reading.cursor.thread_id, 1099u);
}

// The one conversion: a wall clock that is stepped later moves no span and stretches none.
TEST(RingReader, TimesComeFromTheAnchor) {
  JournalImage image = with_spans(1);
  const model::Span before = read(image).batch.spans.at(0);
  EXPECT_EQ(before.start_ns, 1'001'000);
  EXPECT_EQ(before.end_ns, 1'002'000);
  image.header().anchor.wall_ns -= 500'000;  // as if the session had begun under another clock
  const model::Span after = read(image).batch.spans.at(0);
  EXPECT_EQ(after.start_ns, 501'000);
  EXPECT_EQ(after.duration_ns(), before.duration_ns());
  image.header().anchor.monotonic_ns = 5000;  // recorded before the session began
  EXPECT_EQ(read(image).batch.spans.at(0).start_ns, 497'000);
}

TEST(RingReader, UnknownRecordIsCountedAndSkipped) {
  JournalImage image = with_spans(10);
  *image.slot(2, 4) = std::byte{77};
  const Reading reading = read(image);
  EXPECT_EQ(reading.batch.spans.size(), 9u);
  EXPECT_EQ(reading.damaged, 1u);
}

TEST(RingReader, TextBeyondTheBlockIsRefused) {
  JournalImage image = with_spans(10);
  record::SpanRecord liar = JournalImage::span(99, 0);
  liar.name_length = liar.attrs_length = 0xFFFF;
  image.put(2, 9, liar);
  const Reading reading = read(image);
  EXPECT_EQ(reading.batch.spans.size(), 9u);
  EXPECT_EQ(reading.damaged, 1u);
}

TEST(RingReader, NameThatIsNoneIsEmpty) {
  JournalImage image = with_spans(2);
  image.put(2, 0, JournalImage::span(1, 0xFFFFFFFF));
  image.put(2, 1, JournalImage::span(2, 12345));
  const Reading reading = read(image);
  EXPECT_EQ(reading.batch.spans.at(0).name, "");
  EXPECT_EQ(reading.batch.spans.at(1).name, "");
}

TEST(RingReader, NameLongerThanTheTableIsEmpty) {
  JournalImage image = with_spans(1);
  const std::uint32_t length = 0xFFFFFFF0;
  std::memcpy(const_cast<std::byte*>(image.view().base) + record::kNamesOffset + 8, &length,
              sizeof length);
  EXPECT_EQ(read(image).batch.spans.at(0).name, "");
}

TEST(RingReader, MissingBlockEndsTheRing) {
  JournalImage image = with_spans(1500);
  image.link(2, 4000, kSlotsPerBlock);  // it was in memory only
  Reading reading = read(image);
  EXPECT_EQ(reading.batch.spans.size(), std::size_t{kSlotsPerBlock});
  EXPECT_EQ(reading.damaged, 1u);
  EXPECT_EQ(reading.cursor.position, 1500u) << "given up for good, so that nothing waits for it";
}

TEST(RingReader, ChainInACircleEnds) {
  JournalImage image;
  for (const std::uint32_t block : {2u, 3u}) {
    image.ring(block, 0);
    image.link(block, 5 - block, 0);
  }
  image.lane(0).first_block.store(2);
  image.lane(0).head.store(100);
  const Reading reading = read(image);
  EXPECT_TRUE(reading.batch.empty());
  EXPECT_EQ(reading.damaged, 1u);
}

TEST(RingReader, BlockThatPointsAtItselfEnds) {
  JournalImage image = with_spans(100);
  image.link(2, 2, 50);
  const Reading reading = read(image);
  EXPECT_EQ(reading.batch.spans.size(), 50u);
  EXPECT_EQ(reading.damaged, 1u);
}

TEST(RingReader, PositionsThatDoNotFitTheBlockEndTheRing) {
  JournalImage image = with_spans(100);
  image.block(2).base = 1'000'000;
  EXPECT_EQ(read(image).damaged, 1u);
  image.block(2).base = ~std::uint64_t{0} - 100;
  EXPECT_EQ(read(image).damaged, 1u);
  image.block(2).base = 0;
  image.block(2).type.store(record::BlockType::kFree);
  EXPECT_EQ(read(image).damaged, 1u);
  image.block(2).type.store(record::BlockType::kRing);
  image.lane(0).head.store(~std::uint64_t{0});
  const Reading endless = read(image);
  EXPECT_GT(endless.damaged, 0u);
  EXPECT_EQ(endless.cursor.position, ~std::uint64_t{0});
}

TEST(RingReader, MarkTypeThatDoesNotExistIsSurvived) {
  JournalImage image;
  record::MarkRecord mark = {};
  mark.kind = record::RecordKind::kMark;
  mark.type = static_cast<record::MarkType>(200);
  mark.sequence = 1;
  image.ring(2, 0);
  image.put(2, 0, mark);
  image.lane(0).first_block.store(2);
  image.lane(0).head.store(1);
  EXPECT_EQ(read(image).batch.marks.size() + read(image).damaged, 1u);
}

TEST(View, LanesComeInOrderAndOnlyIfUsed) {
  JournalImage image;
  image.lane(2).next_sequence = 0;
  image.lane(0).number = 3;
  image.lane(3).number = 0;
  const auto lanes = image.view().lanes();
  ASSERT_EQ(lanes.size(), 3u);
  EXPECT_EQ(lanes[0], &image.lane(3));
  EXPECT_EQ(lanes[2], &image.lane(0));
}

TEST(JoinAttrs, PutsItsPartsTogether) {
  base::JsonWriter scratch;
  base::Arena arena;
  using record::ClosedBy;
  EXPECT_EQ(join_attrs(scratch, arena, "", "", false, 0, ClosedBy::kSelf), "");
  EXPECT_EQ(
      join_attrs(scratch, arena, "\"a\":1", "\"b\":2", true, 18'446'744'073'709'551'615u,
                 ClosedBy::kGarbage),
      R"("a":1,"b":2,"data_load_ns":18446744073709551615,"sonde.closed_by":"garbage_collection")");
  EXPECT_EQ(join_attrs(scratch, arena, "", "", false, 0, ClosedBy::kDeath),
            R"("sonde.closed_by":"death")");
  EXPECT_EQ(join_attrs(scratch, arena, "", "\"b\":2", false, 0, static_cast<ClosedBy>(99)),
            "\"b\":2");
}

}  // namespace
}  // namespace sonde::journal
