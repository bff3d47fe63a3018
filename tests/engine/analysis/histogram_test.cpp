#include "engine/analysis/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

namespace sonde::analysis {
namespace {

TEST(Histogram, EmptyHasNoQuantile) {
  EXPECT_EQ(Histogram().quantile(0.5), 0);
  EXPECT_EQ(Histogram().count(), 0u);
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (const std::int64_t value : {3, 1, 2, 1, 15}) histogram.add(value);
  EXPECT_EQ(histogram.quantile(0), 1);
  EXPECT_EQ(histogram.quantile(0.5), 2);
  EXPECT_EQ(histogram.quantile(1), 15);
}

TEST(Histogram, QuantilesAreRightToThreePercent) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> durations(13, 3);
  std::vector<std::int64_t> values;
  Histogram histogram;
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(static_cast<std::int64_t>(durations(random)));
    histogram.add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double q : {0.05, 0.5, 0.95, 0.99}) {
    const auto exact = static_cast<double>(values[static_cast<std::size_t>(q * 20'000)]);
    EXPECT_NEAR(static_cast<double>(histogram.quantile(q)) / exact, 1.0, 0.04) << q;
  }
}

TEST(Histogram, MergingIsAddingUp) {
  for (const int count : {2, 50}) {  // few and many distinct values
    Histogram all, left, right;
    for (int i = 0; i < count; ++i) {
      all.add(i * 1000);
      (i % 2 == 0 ? left : right).add(i * 1000);
    }
    left.merge(right);
    EXPECT_EQ(left.count(), all.count());
    for (const double q : {0.0, 0.25, 0.5, 0.9}) EXPECT_EQ(left.quantile(q), all.quantile(q));
  }
}

TEST(Histogram, TakesAnyValue) {
  Histogram histogram;
  for (const std::int64_t value :
       {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1}, std::int64_t{0},
        std::numeric_limits<std::int64_t>::max(), std::int64_t{1} << 62, std::int64_t{17}}) {
    histogram.add(value);
  }
  EXPECT_EQ(histogram.count(), 6u);
  EXPECT_EQ(histogram.quantile(0), 0);
  EXPECT_GT(histogram.quantile(1), std::int64_t{1} << 62);
}

}  // namespace
}  // namespace sonde::analysis
