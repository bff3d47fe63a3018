#include "engine/snapshot/statistics.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace sonde::snapshot {
namespace {

template <typename T>
Statistics of(const std::vector<T>& values, Element element, unsigned threads = 1) {
  const std::array<std::int64_t, 1> sizes{static_cast<std::int64_t>(values.size())};
  const Tensor tensor{values.data(), element, 1, sizes.data(), nullptr};
  Statistics found;
  measure({&tensor, 1}, {&found, 1}, threads);
  return found;
}

TEST(Statistics, OfAFewFloats) {
  const Statistics found = of<float>({1, 2, 3, 4, 0, -0.0F}, Element::kFloat32);
  EXPECT_EQ(found.count, 6u);
  EXPECT_EQ(found.zero_count, 2u);
  EXPECT_EQ(found.min, 0);
  EXPECT_EQ(found.max, 4);
  EXPECT_DOUBLE_EQ(found.mean, 10.0 / 6);
  EXPECT_DOUBLE_EQ(found.norm, std::sqrt(30.0));
  EXPECT_DOUBLE_EQ(found.std, std::sqrt(30.0 / 6 - 100.0 / 36));
  EXPECT_EQ(found.counts,
            (std::array<std::uint64_t, 16>{2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1}));
  EXPECT_EQ(found.edge(0), 0);
  EXPECT_EQ(found.edge(1), 0.25);
  EXPECT_EQ(found.edge(16), 4);
}

TEST(Statistics, NothingFiniteIsAllZero) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  const Statistics found = of<float>({nan, inf, -inf}, Element::kFloat32);
  EXPECT_EQ(found.nan_count, 1u);
  EXPECT_EQ(found.inf_count, 2u);
  EXPECT_EQ(found.count, 0u);
  EXPECT_EQ(found.min, 0);
  EXPECT_EQ(found.norm, 0);
  EXPECT_EQ(found.edge(16), 0);
  EXPECT_EQ(of<float>({}, Element::kFloat32).edge(3), 0);
}

TEST(Statistics, AConstantLiesInTheFirstBin) {
  const Statistics found = of<double>({3, 3, 3}, Element::kFloat64);
  EXPECT_EQ(found.counts[0], 3u);
  EXPECT_EQ(found.edge(0), 3);
  EXPECT_EQ(found.edge(16), 4);
  EXPECT_EQ(found.std, 0);
}

TEST(Statistics, NonFiniteValuesAreLeftOut) {
  const Statistics found =
      of<double>({std::nan(""), 1, std::numeric_limits<double>::infinity(), 3}, Element::kFloat64);
  EXPECT_EQ(found.count, 2u);
  EXPECT_EQ(found.mean, 2);
  EXPECT_EQ(found.std, 1);
  EXPECT_EQ(found.counts[0], 1u);
  EXPECT_EQ(found.counts[15], 1u);
}

TEST(Statistics, EdgesOfTheWholeRangeAreFinite) {
  const double top = std::numeric_limits<double>::max();
  const Statistics found = of<double>({-top, 0, top}, Element::kFloat64);
  EXPECT_EQ(found.edge(8), 0);
  EXPECT_EQ(found.edge(0), -top);
  EXPECT_EQ(found.counts[8], 1u);
}

}  // namespace
}  // namespace sonde::snapshot
