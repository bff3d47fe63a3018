// The statistics of tensors in a source, as one value.
#include "engine/run/snapshots.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "engine/analysis/no_snapshots.h"
#include "engine/analysis/tensors.h"
#include "engine/model/missing.h"
#include "engine/model/trace.h"
#include "tests/engine/run/memory_source.h"
#include "tests/engine/support/spans.h"

namespace sonde::run {
namespace {

using testing::MemorySource;
using testing::span;
using Names = std::vector<std::string>;
using What = model::Missing::What;

std::string record(char span, std::string_view tensor) {
  return R"({"id":"1","span_id":")" + std::string(31, '0') + span + R"(","tensor_name":")" +
         std::string(tensor) + R"(","shape":[2],"dtype":"float32","mode":"stats","stats":null})";
}

// Two epochs, 1 and 2, each with the weights `b` and `a`; the second is stored first.
void store_epochs(MemorySource& source) {
  for (const char id : {'2', '1'}) {
    const std::int64_t index = id - '1';
    model::Batch batch;
    batch.spans = {span(static_cast<std::uint64_t>(id - '0'), 100, "epoch", 10 * index,
                        10 * index + 9, index)};
    if (id == '1') batch.spans.push_back(testing::session(100, "acme.session", 0, 50));
    std::string json = testing::json_of(batch);
    const std::string_view none = R"("snapshots":[)";
    json.insert(json.find(none) + none.size(), record(id, "b") + "," + record(id, "a"));
    source.store(std::string(1, id), json, 0);
  }
}

Names lines_of(const Tensors& tensors) {
  Names out;
  for (const analysis::TensorLine& line : tensors.table.lines())
    out.push_back(std::to_string(line.epoch->index) + "/" + std::string(line.tensor.name));
  return out;
}

TEST(Tensors, AreAllRecordsInOrder) {
  MemorySource source;
  store_epochs(source);
  const Tensors all = read_tensors(source, {});
  EXPECT_EQ(lines_of(all), (Names{"0/b", "0/a", "1/b", "1/a"}));
  EXPECT_EQ(all.skipped.read, 2u);
  EXPECT_EQ(lines_of(read_tensors(source, {.choice = {}, .tensor = "a", .epoch = 1})),
            Names{"1/a"});
}

TEST(Tensors, SayWhyThereAreNone) {
  MemorySource source;
  store_epochs(source);
  const NoRecords other = read_tensors(source, {.choice = {}, .tensor = "c", .epoch = {}}).none;
  EXPECT_EQ(other.missing.what, What::kTensor);
  EXPECT_EQ(other.missing.there, (Names{"a", "b"}));
  EXPECT_TRUE(other.reasons.empty());
  const NoRecords gradients =
      read_tensors(source, {.choice = {}, .tensor = "a", .epoch = {}, .weights = false}).none;
  EXPECT_EQ(gradients.missing.what, What::kGradients) << "there are only weights";

  MemorySource off;
  model::Batch batch;
  batch.spans = {testing::session(100, "acme.session", 0, 50)};
  batch.spans[0].attrs = R"("pid":1,"snapshots":"off")";
  off.store("1", testing::json_of(batch), 0);
  const NoRecords nothing = read_tensors(off, {}).none;
  EXPECT_EQ(nothing.missing.what, What::kCaptures);
  ASSERT_EQ(nothing.reasons.size(), 1u);
  EXPECT_EQ(nothing.reasons[0].cause, analysis::NoSnapshots::Cause::kOff);
}

}  // namespace
}  // namespace sonde::run
