// The layout that the Arrow C data interface prescribes, read back the way a consumer reads it.
#include "engine/export/arrow.h"

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/export/span_columns.h"

namespace sonde::exporting {
namespace {

constexpr std::int64_t kNullable = 2;

model::Span make_span(std::uint64_t id, std::uint64_t parent, std::string_view name) {
  model::Span span;
  span.id = {0, id};
  if (parent != 0) span.parent_id = {0, parent};
  span.name = name;
  return span;
}

// session (open) > step[0], step[1]; one mark on step[0], two on the session.
std::shared_ptr<model::Batch> sample() {
  auto batch = std::make_shared<model::Batch>();
  model::Span first = make_span(2, 1, "step");
  first.index = 0;
  first.start_ns = 1'000;
  first.end_ns = 4'999;
  first.attrs = R"("lr":0.5)";
  first.thread_id = 0xFFFF'FFFF'FFFF'FFF0u;
  first.pid = 77;
  first.rank = 3;
  first.gpu_ns = 5;
  model::Span second = make_span(3, 1, "step");
  second.index = 1;
  second.start_ns = 9'000;
  second.end_ns = 8'000;  // a damaged file: never negative
  model::Span session = make_span(1, 0, "session");
  session.start_ns = 500;
  first.mark_id_count = 1;
  first.first_mark_id = 1;
  session.mark_id_count = 2;
  batch->mark_lists = {"[1,2]", "[3]"};
  batch->spans = {first, second, session};
  return batch;
}

// What a consumer holds; releases it the way the interface asks.
struct Table {
  ArrowArrayStream stream = {};
  ArrowSchema schema = {};
  ArrowArray array = {};

  explicit Table(std::shared_ptr<const model::Batch> batch) {
    export_spans(std::move(batch), &stream);
    EXPECT_EQ(stream.get_schema(&stream, &schema), 0);
    EXPECT_EQ(stream.get_next(&stream, &array), 0);
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table() {
    if (array.release != nullptr) array.release(&array);
    if (schema.release != nullptr) schema.release(&schema);
    if (stream.release != nullptr) stream.release(&stream);
  }

  std::size_t column(std::string_view name) const {
    for (std::int64_t i = 0; i < schema.n_children; ++i) {
      if (schema.children[i]->name == name) return static_cast<std::size_t>(i);
    }
    ADD_FAILURE() << "no column " << name;
    return 0;
  }
  const ArrowArray& values(std::string_view name) const { return *array.children[column(name)]; }
};

bool is_valid(const ArrowArray& array, std::size_t row) {
  const auto* bits = static_cast<const std::uint8_t*>(array.buffers[0]);
  return bits == nullptr || (bits[row / 8] >> (row % 8) & 1) != 0;
}

template <typename T>
std::optional<T> number_at(const ArrowArray& array, std::size_t row) {
  if (!is_valid(array, row)) return std::nullopt;
  return static_cast<const T*>(array.buffers[1])[row];
}

std::optional<std::string> text_at(const ArrowArray& array, std::size_t row) {
  if (!is_valid(array, row)) return std::nullopt;
  const auto* offsets = static_cast<const std::int32_t*>(array.buffers[1]);
  return std::string(static_cast<const char*>(array.buffers[2]) + offsets[row],
                     static_cast<std::size_t>(offsets[row + 1] - offsets[row]));
}

std::string name_at(const ArrowArray& array, std::size_t row) {
  const auto index = number_at<std::int32_t>(array, row);
  return *text_at(*array.dictionary, static_cast<std::size_t>(*index));
}

TEST(Arrow, SchemaHasEveryColumnInOrderWithItsTypeAndNullability) {
  const Table table(sample());
  const std::vector<std::tuple<std::string, std::string, bool>> expected = {
      {"id", "u", false},        {"parent_id", "u", true},
      {"name", "i", false},      {"index", "l", true},
      {"start_ns", "l", false},  {"end_ns", "l", true},
      {"wall_us", "l", true},    {"cpu_ns", "l", true},
      {"gpu_ns", "l", true},     {"memory_peak_bytes", "l", true},
      {"thread_id", "L", false}, {"pid", "i", false},
      {"rank", "i", false},      {"mark_count", "l", false},
      {"depth", "i", false},     {"attrs", "u", false},
      {"marks", "u", false},
  };
  EXPECT_STREQ(table.schema.format, "+s");
  ASSERT_EQ(static_cast<std::size_t>(table.schema.n_children), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const ArrowSchema& field = *table.schema.children[i];
    const auto& [name, format, nullable] = expected[i];
    EXPECT_EQ(field.name, name);
    EXPECT_EQ(field.format, format) << name;
    EXPECT_EQ(field.flags == kNullable, nullable) << name;
    EXPECT_EQ(field.n_children, 0) << name;
    EXPECT_EQ(field.dictionary != nullptr, name == "name");
  }
  EXPECT_STREQ(table.schema.children[2]->dictionary->format, "u");
}

TEST(Arrow, RowsHoldTheSpans) {
  const Table table(sample());
  EXPECT_EQ(table.array.length, 3);
  EXPECT_EQ(table.array.n_buffers, 1);
  EXPECT_EQ(table.array.null_count, 0);
  ASSERT_EQ(table.array.n_children, table.schema.n_children);
  for (std::int64_t i = 0; i < table.array.n_children; ++i) {
    EXPECT_EQ(table.array.children[i]->length, 3) << table.schema.children[i]->name;
    EXPECT_EQ(table.array.children[i]->offset, 0);
  }
  const std::string zeros(31, '0');
  EXPECT_EQ(text_at(table.values("id"), 0), zeros + "2");
  EXPECT_EQ(text_at(table.values("parent_id"), 1), zeros + "1");
  EXPECT_EQ(text_at(table.values("parent_id"), 2), std::nullopt);
  EXPECT_EQ(name_at(table.values("name"), 0), "step");
  EXPECT_EQ(name_at(table.values("name"), 1), "step");
  EXPECT_EQ(name_at(table.values("name"), 2), "session");
  EXPECT_EQ(table.values("name").dictionary->length, 2);
  EXPECT_EQ(number_at<std::int64_t>(table.values("index"), 1), 1);
  EXPECT_EQ(number_at<std::int64_t>(table.values("index"), 2), std::nullopt);
  EXPECT_EQ(number_at<std::int64_t>(table.values("start_ns"), 2), 500);
  EXPECT_EQ(number_at<std::int64_t>(table.values("end_ns"), 0), 4'999);
  EXPECT_EQ(number_at<std::int64_t>(table.values("gpu_ns"), 0), 5);
  EXPECT_EQ(number_at<std::int64_t>(table.values("gpu_ns"), 1), std::nullopt);
  EXPECT_EQ(number_at<std::int64_t>(table.values("cpu_ns"), 0), std::nullopt);
  EXPECT_EQ(number_at<std::uint64_t>(table.values("thread_id"), 0), 0xFFFF'FFFF'FFFF'FFF0u);
  EXPECT_EQ(number_at<std::int32_t>(table.values("pid"), 0), 77);
  EXPECT_EQ(number_at<std::int32_t>(table.values("rank"), 0), 3);
  EXPECT_EQ(text_at(table.values("attrs"), 0), R"({"lr":0.5})");
  EXPECT_EQ(text_at(table.values("attrs"), 1), "{}");
}

TEST(Arrow, WallTimeIsFlooredNeverNegativeAndNullWhileOpen) {
  const Table table(sample());
  const ArrowArray& wall = table.values("wall_us");
  EXPECT_EQ(number_at<std::int64_t>(wall, 0), 3);
  EXPECT_EQ(number_at<std::int64_t>(wall, 1), 0);
  EXPECT_EQ(number_at<std::int64_t>(wall, 2), std::nullopt);
  EXPECT_EQ(wall.null_count, 1);
  EXPECT_EQ(number_at<std::int64_t>(table.values("end_ns"), 2), std::nullopt);
}

TEST(Arrow, MarksAreTheTextOfTheirSpan) {
  const Table table(sample());
  EXPECT_EQ(text_at(table.values("marks"), 0), "[3]");
  EXPECT_EQ(text_at(table.values("marks"), 1), "[]");
  EXPECT_EQ(text_at(table.values("marks"), 2), "[1,2]");
}

TEST(Arrow, DepthAndMarkCountSpeakOfTheBatch) {
  const Table table(sample());
  EXPECT_EQ(number_at<std::int32_t>(table.values("depth"), 0), 1);
  EXPECT_EQ(number_at<std::int32_t>(table.values("depth"), 2), 0);
  EXPECT_EQ(number_at<std::int64_t>(table.values("mark_count"), 0), 1);
  EXPECT_EQ(number_at<std::int64_t>(table.values("mark_count"), 1), 0);
  EXPECT_EQ(number_at<std::int64_t>(table.values("mark_count"), 2), 2);
}

TEST(Arrow, StreamEndsAfterOneBatch) {
  Table table(sample());
  ArrowArray next = {};
  next.release = [](ArrowArray*) {};
  EXPECT_EQ(table.stream.get_next(&table.stream, &next), 0);
  EXPECT_EQ(next.release, nullptr);
  EXPECT_EQ(table.stream.get_last_error(&table.stream), nullptr);
}

TEST(Arrow, EmptyBatchStillHasItsColumns) {
  const Table table(std::make_shared<model::Batch>());
  EXPECT_EQ(table.array.length, 0);
  EXPECT_EQ(table.array.n_children, table.schema.n_children);
  for (std::int64_t i = 0; i < table.array.n_children; ++i) {
    const ArrowArray& column = *table.array.children[i];
    for (std::int64_t k = 1; k < column.n_buffers; ++k)
      EXPECT_NE(column.buffers[k], nullptr) << table.schema.children[i]->name;
  }
  EXPECT_EQ(table.values("name").dictionary->length, 0);
}

TEST(Arrow, BufferOfValuesOutlivesTheStreamAndTheBatch) {
  auto batch = sample();
  const std::weak_ptr<model::Batch> watch = batch;
  Table table(std::move(batch));
  EXPECT_TRUE(watch.expired()) << "the table is a copy; the batch is not needed any more";
  table.stream.release(&table.stream);
  EXPECT_EQ(table.stream.release, nullptr);
  EXPECT_EQ(name_at(table.values("name"), 2), "session");
}

// A consumer may move one column out, drop the table, and go on using the column.
TEST(Arrow, ColumnMovedOutSurvivesItsTable) {
  Table table(sample());
  const std::size_t at = table.column("name");
  ArrowArray moved = *table.array.children[at];
  table.array.children[at]->release = nullptr;
  ArrowSchema moved_schema = *table.schema.children[at];
  table.schema.children[at]->release = nullptr;
  table.array.release(&table.array);
  table.schema.release(&table.schema);
  EXPECT_EQ(table.array.release, nullptr);
  EXPECT_EQ(name_at(moved, 0), "step");
  EXPECT_STREQ(moved_schema.dictionary->format, "u");
  moved.release(&moved);
  moved_schema.release(&moved_schema);
}

TEST(Arrow, StreamReleasedUnreadLetsGoOfTheBatch) {
  auto batch = sample();
  const std::weak_ptr<model::Batch> watch = batch;
  ArrowArrayStream stream = {};
  export_spans(std::move(batch), &stream);
  stream.release(&stream);
  EXPECT_TRUE(watch.expired());
}

TEST(Arrow, BytesThatAreNoUtf8BecomeReplacementCharacters) {
  auto batch = sample();
  batch->spans[0].name = "caf\xC3\xA9 \xED\xA0\x80 \xF0\x9F\x98\x80 \xC3";
  const Table table(batch);
  EXPECT_EQ(name_at(table.values("name"), 0),
            "caf\xC3\xA9 \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD \xF0\x9F\x98\x80 \xEF\xBF\xBD");
}

TEST(Arrow, Utf8OfEveryLengthIsKept) {
  for (const std::string_view text :
       {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    std::string out;
    append_utf8(out, text);
    EXPECT_EQ(out, text);
  }
  for (const std::string_view text : {"\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
                                      "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82"}) {
    std::string out;
    append_utf8(out, text);
    EXPECT_EQ(out.find(text), std::string::npos);
    EXPECT_EQ(out.substr(0, 3), "\xEF\xBF\xBD");
  }
}

TEST(Arrow, ValidityBitsCrossBytes) {
  auto batch = std::make_shared<model::Batch>();
  for (std::uint64_t i = 1; i <= 100; ++i) {
    model::Span span = make_span(i, 0, "x");
    if (i % 3 == 0) span.index = static_cast<std::int64_t>(i);
    batch->spans.push_back(span);
  }
  const Table table(batch);
  const ArrowArray& index = table.values("index");
  EXPECT_EQ(index.null_count, 67);
  for (std::size_t row = 0; row < 100; ++row) {
    const auto expected = (row + 1) % 3 == 0 ? std::optional<std::int64_t>(row + 1) : std::nullopt;
    EXPECT_EQ(number_at<std::int64_t>(index, row), expected);
  }
}

}  // namespace
}  // namespace sonde::exporting
