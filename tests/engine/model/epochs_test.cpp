#include "engine/model/epochs.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/support/spans.h"

namespace sonde::model {
namespace {

using sonde::testing::on_rank;
using sonde::testing::span;

Runs runs_of(const std::vector<Span>& spans) {
  Runs runs;
  runs.add(spans);
  runs.finish();
  return runs;
}

// Two epochs on each of two ranks, the spans in no order.
const std::vector<Span> kSpans = {
    on_rank(1, span(4, 0, "epoch", 11, 20, 1)), on_rank(0, span(2, 0, "epoch", 10, 20, 1)),
    on_rank(0, span(1, 0, "epoch", 0, 9, 0)), on_rank(1, span(3, 0, "epoch", 1, 9, 0))};

TEST(Epochs, KnowRunRankAndOrder) {
  Epochs epochs(kSpans, runs_of(kSpans));
  const Epoch* late = epochs.find({0, 4});
  ASSERT_NE(late, nullptr);
  EXPECT_EQ(late->index, 1);
  EXPECT_EQ(late->rank, 1);
  EXPECT_EQ(late->run, 1u);
  EXPECT_EQ(late->order, 1u);
  EXPECT_EQ(epochs.find({0, 9}), nullptr);
  EXPECT_EQ(epochs.unknown({0, 9}).run, 0u);
  EXPECT_EQ(&epochs.unknown({0, 9}), epochs.find({0, 9}));
}

TEST(Epochs, AnIndexThatRepeatsIsAnotherEpoch) {
  const std::vector<Span> spans = {span(1, 0, "epoch", 0, 9, 0), span(2, 0, "epoch", 10, 19, 0)};
  Epochs epochs(spans, runs_of(spans));
  EXPECT_EQ(epochs.find({0, 1})->order, 0u);
  EXPECT_EQ(epochs.find({0, 2})->order, 1u);
}

}  // namespace
}  // namespace sonde::model
