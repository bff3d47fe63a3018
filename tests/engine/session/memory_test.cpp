#include "engine/session/memory.h"

#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "engine/journal/ring_reader.h"
#include "engine/model/span_fields.h"
#include "engine/record/journal.h"
#include "engine/record/names.h"
#include "tests/engine/support/slots.h"

namespace sonde::session {
namespace {

model::Span make_span(std::uint64_t id, std::string_view name = "x") {
  model::Span span;
  span.id = {0, id};
  span.parent_id = {0, id + 1'000'000};
  span.name = name;
  span.start_ns = static_cast<std::int64_t>(id);
  span.end_ns = static_cast<std::int64_t>(id + 10);
  return span;
}

model::Mark make_mark(std::uint64_t id, std::uint64_t span, bool summary = false) {
  model::Mark mark;
  mark.id = {1, id};
  mark.span_id = {0, span};
  mark.name = "loss";
  mark.real = static_cast<double>(id);
  mark.ts_ns = static_cast<std::int64_t>(id);
  mark.summary = summary;
  return mark;
}

void add(Memory& memory, std::vector<model::Span> spans, std::vector<model::Mark> marks = {}) {
  model::Batch batch;
  batch.spans = std::move(spans);
  batch.marks = std::move(marks);
  memory.add(batch);
}

model::Batch contents(const Memory& memory) {
  model::Batch batch;
  memory.copy_to(batch);
  return batch;
}

// Every id and number that the spool has is kept, whichever fields there are.
TEST(Memory, KeepsEveryNumberOfTheTable) {
  model::Span span;
  span.name = "x";
  std::int64_t value = 0;
  const auto each_number = [](auto visit) {
    model::for_each_field<model::kSpool>([&]<typename One>(One field) {
      using model::Kind;
      if constexpr (One::kKind == Kind::kNumber || One::kKind == Kind::kEnd ||
                    One::kKind == Kind::kOptional || One::kKind == Kind::kId ||
                    One::kKind == Kind::kParent) {
        visit(field);
      }
    });
  };
  each_number([&]<typename One>(One) {
    using Value = std::remove_cvref_t<decltype(One::of(span))>;
    if constexpr (std::is_same_v<Value, base::Id>) {
      One::of(span) = {1, static_cast<std::uint64_t>(++value)};
    } else {
      One::of(span) = static_cast<Value>(++value);
    }
  });
  Memory memory;
  add(memory, {span});
  const model::Batch read = contents(memory);
  each_number([&]<typename One>(One) {
    EXPECT_EQ(One::of(read.spans.at(0)), One::of(span)) << One::kName;
  });
}

TEST(Memory, KeepsEveryFieldOfASpan) {
  Memory memory;
  {
    std::string name = "a name of its own", attrs = R"("k":"v")";
    model::Span span = make_span(7, name);
    span.attrs = attrs;
    span.index = 3;
    span.gpu_ns = 4;
    span.memory_peak_bytes = 5;
    span.thread_id = 6;
    span.pid = 8;
    span.rank = 9;
    add(memory, {span});
    name.assign(name.size(), '?');  // the memory keeps no view of it
    attrs.assign(attrs.size(), '?');
  }
  const model::Batch batch = contents(memory);
  ASSERT_EQ(batch.spans.size(), 1u);
  const model::Span& span = batch.spans[0];
  EXPECT_EQ(span.id, (base::Id{0, 7}));
  EXPECT_EQ(span.parent_id, (base::Id{0, 1'000'007}));
  EXPECT_EQ(span.name, "a name of its own");
  EXPECT_EQ(span.attrs, R"("k":"v")");
  EXPECT_EQ(span.index, 3);
  EXPECT_EQ(span.start_ns, 7);
  EXPECT_EQ(span.end_ns, 17);
  EXPECT_EQ(span.cpu_ns, model::kNone);
  EXPECT_EQ(span.gpu_ns, 4);
  EXPECT_EQ(span.memory_peak_bytes, 5);
  EXPECT_EQ(span.thread_id, 6u);
  EXPECT_EQ(span.pid, 8);
  EXPECT_EQ(span.rank, 9);
}

TEST(Memory, InternedNamesAreNotCopied) {
  Memory memory;
  const std::uint32_t id = record::intern("interned in memory");
  const journal::View view{reinterpret_cast<const std::byte*>(&testing::own_header()),
                           record::kMaxBlocks};
  add(memory, {make_span(1, view.name(id))});
  EXPECT_EQ(contents(memory).spans.at(0).name.data(), record::name_text(id).data());
}

TEST(Memory, OldestSpansGoFirst) {
  Memory memory;
  memory.set_capacity(1500);
  for (std::uint64_t i = 1; i <= 10'000; ++i) {
    add(memory, {make_span(i, i % 2 == 0 ? "even" : "odd")}, {make_mark(i, i)});
    ASSERT_LE(memory.size(), 1500u);
  }
  const model::Batch batch = contents(memory);
  ASSERT_EQ(batch.spans.size(), 1500u);
  ASSERT_EQ(batch.marks.size(), 1500u) << "their marks go with them";
  for (std::size_t i = 0; i < 1500; ++i) {
    EXPECT_EQ(batch.spans[i].id.lo, 8501 + i);
    EXPECT_EQ(batch.marks[i].id.lo, 8501 + i);
    EXPECT_EQ(batch.spans[i].name, (8501 + i) % 2 == 0 ? "even" : "odd");
  }
}

TEST(Memory, CapacitiesAroundAChunk) {
  for (const std::uint32_t capacity : {1u, 2u, 1023u, 1024u, 1025u, 2048u}) {
    Memory memory;
    memory.set_capacity(capacity);
    for (std::uint64_t i = 1; i <= 5000; ++i) add(memory, {make_span(i)});
    const model::Batch batch = contents(memory);
    ASSERT_EQ(batch.spans.size(), capacity);
    EXPECT_EQ(batch.spans.front().id.lo, 5001 - capacity);
    EXPECT_EQ(batch.spans.back().id.lo, 5000u);
  }
}

TEST(Memory, NewCapacityKeepsTheNewest) {
  Memory memory;
  for (std::uint64_t i = 1; i <= 100; ++i) add(memory, {make_span(i)}, {make_mark(i, i)});
  memory.set_capacity(10);
  model::Batch batch = contents(memory);
  ASSERT_EQ(batch.spans.size(), 10u);
  EXPECT_EQ(batch.spans[0].id.lo, 91u);
  EXPECT_EQ(batch.marks.size(), 10u);
  memory.set_capacity(1'000'000);
  for (std::uint64_t i = 101; i <= 200; ++i) add(memory, {make_span(i)});
  EXPECT_EQ(contents(memory).spans.size(), 110u);
}

TEST(Memory, NewCapacityKeepsTheMarksOfOpenSpans) {
  Memory memory;
  add(memory, {}, {make_mark(1, 50), make_mark(2, 50, true)});
  memory.set_capacity(10);
  add(memory, {make_span(50)});
  EXPECT_EQ(contents(memory).marks.size(), 2u);
}

TEST(Memory, MarksWaitForTheirSpan) {
  Memory memory;
  add(memory, {}, {make_mark(1, 50), make_mark(2, 51)});
  add(memory, {}, {make_mark(3, 50)});
  model::Batch open;
  memory.copy_open_marks({0, 50}, open);
  ASSERT_EQ(open.marks.size(), 2u);
  EXPECT_EQ(open.marks[1].id.lo, 3u);
  EXPECT_TRUE(contents(memory).marks.empty());
  add(memory, {make_span(50)});
  EXPECT_EQ(contents(memory).marks.size(), 2u);
  open.clear();
  memory.copy_open_marks({0, 50}, open);
  EXPECT_TRUE(open.marks.empty());
}

TEST(Memory, KeepsEveryKindOfValue) {
  Memory memory;
  std::string text = "a string";
  model::Mark string_mark = make_mark(1, 5), int_mark = make_mark(2, 5), big_mark = make_mark(3, 5),
              bool_mark = make_mark(4, 5);
  string_mark.type = model::ValueType::kString;
  string_mark.text = text;
  int_mark.type = big_mark.type = model::ValueType::kInt;
  int_mark.integer = -1;
  big_mark.text = "123456789012345678901234567890";
  bool_mark.type = model::ValueType::kBool;
  bool_mark.integer = 1;
  add(memory, {make_span(5)}, {string_mark, int_mark, big_mark, bool_mark, make_mark(5, 5)});
  text.assign(text.size(), '?');
  const model::Batch batch = contents(memory);
  ASSERT_EQ(batch.marks.size(), 5u);
  EXPECT_EQ(batch.marks[0].text, "a string");
  EXPECT_EQ(batch.marks[0].name, "loss");
  EXPECT_EQ(batch.marks[1].integer, -1);
  EXPECT_EQ(batch.marks[2].text, "123456789012345678901234567890");
  EXPECT_EQ(batch.marks[3].integer, 1);
  EXPECT_EQ(batch.marks[4].real, 5.0);
}

TEST(Memory, SpanKeepsItsNewest1024PointsAndAllSummaries) {
  Memory memory;
  std::vector<model::Mark> marks;
  for (std::uint64_t i = 1; i <= 5000; ++i) marks.push_back(make_mark(i, 5, i % 100 == 0));
  add(memory, {make_span(5)}, marks);
  const model::Batch batch = contents(memory);
  ASSERT_EQ(batch.marks.size(), std::size_t{Memory::kMaxPointMarks} + 50);
  std::size_t summaries = 0;
  for (std::size_t i = 0; i < batch.marks.size(); ++i) {
    summaries += batch.marks[i].summary;
    if (i > 0) {
      EXPECT_LT(batch.marks[i - 1].ts_ns, batch.marks[i].ts_ns)
          << "both kinds in the order of their time";
    }
  }
  EXPECT_EQ(summaries, 50u);
  EXPECT_EQ(batch.marks.back().id.lo, 5000u);
}

TEST(Memory, LateMarksFindTheirSpan) {
  Memory memory;
  add(memory, {make_span(1), make_span(2)}, {make_mark(1, 1), make_mark(2, 1, true)});
  add(memory, {}, {make_mark(3, 1)});
  add(memory, {}, {make_mark(4, 1, true)});
  add(memory, {}, {make_mark(5, 2)});
  add(memory, {}, {make_mark(6, 3)});  // still open
  add(memory, {make_span(3)});
  const model::Batch batch = contents(memory);
  std::vector<std::uint64_t> ids;
  for (const model::Mark& mark : batch.marks) ids.push_back(mark.id.lo);
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(batch.marks[4].span_id.lo, 2u);
}

TEST(Memory, LateMarksGoWithTheirSpan) {
  Memory memory;
  memory.set_capacity(2);
  add(memory, {make_span(1), make_span(2)});
  add(memory, {}, {make_mark(1, 1), make_mark(2, 2)});
  memory.set_capacity(3);  // none is lost or doubled
  EXPECT_EQ(contents(memory).marks.size(), 2u);
  add(memory, {make_span(3), make_span(4)});
  const model::Batch batch = contents(memory);
  ASSERT_EQ(batch.marks.size(), 1u);
  EXPECT_EQ(batch.marks[0].id.lo, 2u);
}

TEST(Memory, MarksOfEvictedSpansAreUsedAgain) {
  Memory memory;
  memory.set_capacity(100);
  for (std::uint64_t i = 1; i <= 100'000; ++i)
    add(memory, {make_span(i)}, {make_mark(i, i), make_mark(i, i, true)});
  const model::Batch batch = contents(memory);
  ASSERT_EQ(batch.marks.size(), 200u);
  for (const model::Mark& mark : batch.marks) EXPECT_EQ(mark.span_id.lo, mark.id.lo);
}

TEST(Memory, MarksOfSpansThatNeverComeAreBounded) {
  Memory memory;
  for (std::uint64_t i = 1; i <= 200'000; ++i) add(memory, {}, {make_mark(i, i)});
  add(memory, {make_span(200'000)});
  EXPECT_EQ(contents(memory).marks.size(), 1u);
}

TEST(Memory, ClearForgetsAll) {
  Memory memory;
  add(memory, {make_span(1)}, {make_mark(1, 1), make_mark(2, 2)});
  memory.clear();
  EXPECT_EQ(memory.size(), 0u);
  add(memory, {make_span(2)});
  const model::Batch batch = contents(memory);
  EXPECT_EQ(batch.spans.size(), 1u);
  EXPECT_TRUE(batch.marks.empty());
}

}  // namespace
}  // namespace sonde::session
