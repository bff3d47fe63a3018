#include "engine/analysis/tensors.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/support/spans.h"

namespace sonde::analysis {
namespace {

using model::Epochs;
using model::Span;
using sonde::testing::on_rank;
using sonde::testing::span;

model::TensorStats tensor(std::string_view name) {
  model::TensorStats out;
  out.name = name;
  return out;
}

model::Runs runs_of(const std::vector<Span>& spans) {
  model::Runs runs;
  runs.add(spans);
  runs.finish();
  return runs;
}

// "0/a 0/b": index and tensor of each line.
std::string order_of(const TensorTable& table) {
  std::string out;
  for (const TensorLine& line : table.lines()) {
    if (!out.empty()) out += ' ';
    out += line.epoch->index == model::kNone ? "?" : std::to_string(line.epoch->index);
    if (line.epoch->rank > 0) out += 'r' + std::to_string(line.epoch->rank);
    out += '/' + std::string(line.tensor.name);
  }
  return out;
}

// Two epochs on each of two ranks, the spans in no order.
const std::vector<Span> kSpans = {
    on_rank(1, span(4, 0, "epoch", 11, 20, 1)), on_rank(0, span(2, 0, "epoch", 10, 20, 1)),
    on_rank(0, span(1, 0, "epoch", 0, 9, 0)), on_rank(1, span(3, 0, "epoch", 1, 9, 0))};

TEST(TensorTable, ProcessesOfOneRankCountTheirEpochsEachForThemselves) {
  std::vector<Span> spans = {
      span(5, 0, "cirron.session", 0, 50, 0), span(6, 0, "cirron.session", 0, 50, 0),
      span(1, 0, "epoch", 0, 9, 0),           span(2, 0, "epoch", 1, 9, 0),
      span(3, 0, "epoch", 10, 19, 1),         span(4, 0, "epoch", 11, 19, 1)};
  spans[0].attrs = R"("pid":0,"sonde.run":"a")";
  spans[1].attrs = R"("pid":0,"sonde.run":"a","sonde.process":"SpawnProcess-1")";
  for (const std::size_t child : {1, 3, 5}) spans[child].pid = 7;
  Epochs epochs(std::span<const Span>{spans}.subspan(2), runs_of(spans));
  TensorTable table;
  for (const std::uint64_t id : {1, 2, 3, 4}) table.add(*epochs.find({0, id}), tensor("a"));
  EXPECT_EQ(epochs.find({0, 4})->order, 1u);
  EXPECT_EQ(table.keep_newest(), 2u);
  EXPECT_EQ(order_of(table), "1/a 1/a");
}

TEST(TensorTable, SortsByEpochThenTensorThenRank) {
  Epochs epochs(kSpans, runs_of(kSpans));
  TensorTable table;
  for (const std::uint64_t id : {4, 2, 3, 1}) {
    for (const char* name : {"b", "a"}) table.add(*epochs.find({0, id}), tensor(name));
  }
  table.add(epochs.unknown({0, 9}), tensor("b"));
  table.sort();
  EXPECT_EQ(order_of(table), "?/b 0/b 0r1/b 0/a 0r1/a 1/b 1r1/b 1/a 1r1/a");
}

TEST(TensorTable, KeepsItsOwnCopyOfTheText) {
  Epochs epochs(kSpans, runs_of(kSpans));
  TensorTable table;
  {
    const std::string text(100, 'x');
    table.add(*epochs.find({0, 1}), tensor(text));
  }
  EXPECT_EQ(table.lines()[0].tensor.name, std::string(100, 'x'));
}

TEST(TensorTable, NewestOfEachTensorInTheOrderOfTheModel) {
  Epochs epochs(kSpans, runs_of(kSpans));
  TensorTable table;
  for (const char* name : {"b", "frozen", "a"}) table.add(*epochs.find({0, 1}), tensor(name));
  // Two of one name, as Keras calls them in the spools of others: both stay.
  for (const char* name : {"b", "a", "a"}) table.add(*epochs.find({0, 2}), tensor(name));
  table.add(*epochs.find({0, 3}), tensor("b"));
  table.sort();
  EXPECT_EQ(table.keep_newest(), 2u);
  EXPECT_EQ(order_of(table), "1/b 0r1/b 0/frozen 1/a 1/a");
}

}  // namespace
}  // namespace sonde::analysis
