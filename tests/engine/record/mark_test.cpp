#include "engine/record/mark.h"

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "tests/engine/support/child.h"
#include "tests/engine/support/ring_tap.h"

namespace sonde::record {
namespace {

using testing::RingTap;

class Mark : public ::testing::Test {
 protected:
  void SetUp() override { open_gate(); }

  model::Mark only(const MarkValue& value) {
    RingTap tap;
    ThreadState* thread = this_thread();
    EXPECT_NE(write_mark(*thread, *thread->lane, value), 0u);
    batch_ = tap.take();
    EXPECT_EQ(batch_.marks.size(), 1u);
    return batch_.marks.empty() ? model::Mark() : batch_.marks.front();
  }
  model::Batch batch_;
};

TEST_F(Mark, FloatIsKeptToTheLastBit) {
  for (const double value : {0.1, -0.0, 1e308, std::numeric_limits<double>::denorm_min(),
                             std::numeric_limits<double>::infinity()}) {
    const model::Mark mark = only({.name = intern("loss"), .real = value});
    EXPECT_EQ(mark.type, model::ValueType::kFloat);
    EXPECT_EQ(mark.real, value);
    EXPECT_EQ(std::signbit(mark.real), std::signbit(value));
    EXPECT_EQ(mark.name, "loss");
    EXPECT_FALSE(mark.summary);
  }
  EXPECT_TRUE(std::isnan(only({.name = intern("loss"), .real = std::nan("")}).real));
}

TEST_F(Mark, ScopeThatIsNamedGetsItWhateverIsInnermost) {
  RingTap tap;
  const auto outer = testing::open("epoch");
  const auto inner = testing::open("mine");
  const std::uint64_t sequence = outer.sequence;
  ThreadState* thread = this_thread();
  write_mark(*thread, *thread->lane, {.name = intern("loss"), .real = 1, .span = sequence});
  testing::close(inner);
  testing::close(outer);
  const model::Batch batch = tap.take();
  ASSERT_EQ(batch.marks.size(), 1u);
  ASSERT_EQ(batch.spans.size(), 2u);
  EXPECT_EQ(batch.spans[1].name, "epoch");
  EXPECT_EQ(batch.marks[0].span_id, batch.spans[1].id);
}

TEST_F(Mark, IntegersAndBooleansKeepTheirType) {
  const model::Mark number = only({.type = MarkType::kInt,
                                   .name = intern("n"),
                                   .integer = std::numeric_limits<std::int64_t>::min()});
  EXPECT_EQ(number.type, model::ValueType::kInt);
  EXPECT_EQ(number.integer, std::numeric_limits<std::int64_t>::min());
  const model::Mark flag = only({.type = MarkType::kBool, .name = intern("b"), .integer = 1});
  EXPECT_EQ(flag.type, model::ValueType::kBool);
  EXPECT_EQ(flag.integer, 1);
}

TEST_F(Mark, IntegerBeyond64BitsKeepsItsDigits) {
  const std::string digits = "-" + std::string(4300, '7');  // the longest that Python writes
  const model::Mark mark = only({.type = MarkType::kBigInt, .name = intern("n"), .text = digits});
  EXPECT_EQ(mark.type, model::ValueType::kInt);
  EXPECT_EQ(mark.text, digits);
}

TEST_F(Mark, TextNameAndAttributesFollowTheRecord) {
  const MarkValue value{.type = MarkType::kString,
                        .summary = true,
                        .name_text = "inline name",
                        .text = "resnet50",
                        .attrs = R"("k":"v")"};
  const model::Mark mark = only(value);
  EXPECT_EQ(mark.type, model::ValueType::kString);
  EXPECT_EQ(mark.name, "inline name");
  EXPECT_EQ(mark.text, "resnet50");
  EXPECT_EQ(mark.attrs, R"("k":"v")");
  EXPECT_TRUE(mark.summary);
}

TEST_F(Mark, EmptyTextIsAValue) {
  const model::Mark mark = only({.type = MarkType::kString, .name = intern("s")});
  EXPECT_EQ(mark.type, model::ValueType::kString);
  EXPECT_EQ(mark.text, "");
}

TEST_F(Mark, AttributesTooLongAreLeftOutAndTheValueStays) {
  const std::string attrs = R"("k":")" + std::string(kMaxPayloadBytes, 'x') + "\"";
  const model::Mark mark = only({.name = intern("m"), .real = 3, .attrs = attrs});
  EXPECT_EQ(mark.real, 3);
  EXPECT_EQ(mark.attrs, "");
}

TEST_F(Mark, TextTooLongIsCut) {
  const std::string endless(100'000, 'x');
  const model::Mark mark =
      only({.type = MarkType::kString, .name_text = endless, .text = endless, .attrs = R"("k":1)"});
  EXPECT_GE(mark.text.size(), 4096u);
  EXPECT_LE(mark.name.size() + mark.text.size(), kMaxPayloadBytes);
  EXPECT_TRUE(endless.starts_with(mark.name));
}

TEST_F(Mark, TextIsCutBetweenCharacters) {
  std::string endless;
  for (int i = 0; i < 10'000; ++i) endless += "\u20ac";  // three bytes
  const model::Mark mark = only({.type = MarkType::kString, .name = intern("m"), .text = endless});
  EXPECT_EQ(mark.text.size(), kMaxValueBytes / 3 * 3);
}

TEST_F(Mark, AnIntOfTooManyDigitsIsLostAndCounted) {
  RingTap tap;
  const std::string fits(kMaxValueBytes, '9');
  const MarkValue value = {.type = MarkType::kBigInt, .name = intern("m"), .text = fits};
  ThreadState& thread = *this_thread();
  EXPECT_NE(write_mark(thread, *thread.lane, value), 0u);
  const std::uint64_t before = total_losses().marks;
  MarkValue longer = value;
  const std::string digits = fits + "9";
  longer.text = digits;
  EXPECT_EQ(write_mark(thread, *thread.lane, longer), 0u);
  EXPECT_EQ(total_losses().marks, before + 1);
  const model::Batch batch = tap.take();
  ASSERT_EQ(batch.marks.size(), 1u);
  EXPECT_EQ(batch.marks[0].text, fits);
}

TEST_F(Mark, BelongsToTheInnermostOpenScope) {
  RingTap tap;
  const ScopeHandle outer = testing::open("outer");
  testing::mark("a", 1);
  const ScopeHandle inner = testing::open("inner");
  testing::mark("b", 2);
  testing::mark("c", 3);
  testing::close(inner);
  testing::mark("d", 4);
  testing::close(outer);
  const model::Batch batch = tap.take();
  ASSERT_EQ(batch.marks.size(), 4u);
  const base::Id outer_id = tap.id_of(outer.sequence), inner_id = tap.id_of(inner.sequence);
  EXPECT_EQ(batch.marks[0].span_id, outer_id);
  EXPECT_EQ(batch.marks[1].span_id, inner_id);
  EXPECT_EQ(batch.marks[2].span_id, inner_id);
  EXPECT_EQ(batch.marks[3].span_id, outer_id);
  ASSERT_EQ(batch.spans.size(), 2u);
  EXPECT_EQ(batch.spans[0].mark_id_count, 2u);
  EXPECT_EQ(batch.mark_ids[batch.spans[0].first_mark_id], batch.marks[1].id);
  ASSERT_EQ(batch.spans[1].mark_id_count, 2u);
  EXPECT_EQ(batch.mark_ids[batch.spans[1].first_mark_id], batch.marks[0].id);
  EXPECT_EQ(batch.mark_ids[batch.spans[1].first_mark_id + 1], batch.marks[3].id);
}

TEST_F(Mark, MayNameASpanThatIsClosed) {
  RingTap tap;
  const ScopeHandle first = testing::open("first");
  ThreadState* thread = this_thread();
  MarkValue value{.name = intern("a"), .real = 1, .span = first.sequence, .span_lists_it = true};
  const ScopeHandle above = testing::open("above");
  write_mark(*thread, *thread->lane, value);
  testing::close(above);
  testing::close(first);
  const ScopeHandle second = testing::open("second");
  value.span_lists_it = false;
  write_mark(*thread, *thread->lane, value);
  testing::close(second);
  const model::Batch batch = tap.take();
  ASSERT_EQ(batch.marks.size(), 2u);
  EXPECT_EQ(batch.marks[0].span_id, tap.id_of(first.sequence));
  EXPECT_EQ(batch.marks[1].span_id, tap.id_of(first.sequence));
  ASSERT_EQ(batch.spans.size(), 3u);
  EXPECT_EQ(batch.spans[0].mark_id_count, 0u);
  EXPECT_EQ(batch.spans[1].mark_id_count, 1u);
  EXPECT_EQ(batch.spans[2].mark_id_count, 0u);
}

TEST_F(Mark, OutsideAnyScopeHasNoSpan) {
  EXPECT_FALSE(only({.name = intern("free"), .real = 1}).span_id);
}

TEST_F(Mark, TimeIsTheMomentOfTheCall) {
  const base::ClockAnchor anchor = Journal::instance().header().anchor;
  const std::int64_t before = base::to_wall_ns(anchor, base::monotonic_ns());
  const model::Mark mark = only({.name = intern("t"), .real = 1});
  EXPECT_GE(mark.ts_ns, before);
  EXPECT_LE(mark.ts_ns, base::to_wall_ns(anchor, base::monotonic_ns()));
}

TEST_F(Mark, ShortFormIsTheSameMark) {
  RingTap tap;
  ThreadState* thread = this_thread();
  const ScopeHandle scope = testing::open("scope");
  EXPECT_TRUE(write_float(*thread, *thread->lane, intern("loss"), 0.25));
  testing::close(scope);
  const model::Batch batch = tap.take();
  ASSERT_EQ(batch.marks.size(), 1u);
  EXPECT_EQ(batch.marks[0].real, 0.25);
  EXPECT_EQ(batch.marks[0].name, "loss");
  EXPECT_EQ(batch.marks[0].attrs, "");
  EXPECT_EQ(batch.marks[0].span_id, tap.id_of(scope.sequence));
  EXPECT_EQ(batch.spans[0].mark_id_count, 1u);
}

TEST_F(Mark, SpanListsItsNewest1024) {
  testing::in_child([] {
    RingTap tap;
    const ScopeHandle scope = testing::open("long");
    std::vector<std::uint64_t> sequences;
    for (int i = 0; i < 3000; ++i) sequences.push_back(testing::mark("loss", i));
    testing::close(scope);
    const model::Batch batch = tap.take();
    EXPECT_EQ(batch.marks.size(), 3000u) << "every mark is recorded and names its span";
    ASSERT_EQ(batch.spans.size(), 1u);
    ASSERT_EQ(batch.spans[0].mark_id_count, journal::MarkLists::kMaxListed);
    for (std::uint32_t i = 0; i < 1024; ++i) {
      ASSERT_EQ(batch.mark_ids[batch.spans[0].first_mark_id + i],
                tap.id_of(sequences[3000 - 1024 + i]))
          << i;
    }
  });
}

}  // namespace
}  // namespace sonde::record
