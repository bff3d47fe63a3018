#include "engine/snapshot/usable_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace sonde::snapshot {
namespace {

// Every instruction set that this processor can run.
class EachKernels : public testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& kernels() const { return *GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Usable, EachKernels, testing::ValuesIn(usable_kernels()),
                         [](const auto& info) { return std::string(info.param->name); });

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.5F, 2.0F);
  std::vector<float> values(count);
  for (float& value : values) value = random() % 8 == 0 ? 0.0F : normal(random);
  return values;
}

template <typename T>
Edges<T> edges_between(T low, T high, bool indexed) {
  Edges<T> edges;
  edges.low = low;
  for (int i = 1; i < 16; ++i) {
    const double exact = double{low} + (double{high} - low) * (i / 16.0);
    auto rounded = static_cast<T>(exact);
    while (rounded < exact) rounded = std::nextafter(rounded, std::numeric_limits<T>::infinity());
    edges.upper[static_cast<std::size_t>(i - 1)] = rounded;
  }
  edges.upper[15] = std::numeric_limits<T>::infinity();
  if (indexed) edges.scale = static_cast<T>(16 / (double{high} - low));
  return edges;
}

template <typename T>
Counts plain_bins(const std::vector<T>& values, const Edges<T>& edges) {
  Counts counts{};
  for (const T value : values)
    ++counts[static_cast<std::size_t>(std::count_if(edges.upper.begin(), edges.upper.end(),
                                                    [&](T edge) { return value >= edge; }))];
  return counts;
}

TEST_P(EachKernels, AddUpAnyNumberOfFloats) {
  const std::vector<float> all = random_floats(700, 1);
  for (std::size_t count = 0; count < 300; ++count) {
    const float* values = all.data() + count;  // of any alignment
    Sums wanted, found;
    for (std::size_t i = 0; i < count; ++i) {
      const double x = values[i];
      wanted.add({x, x * x, x, x, x == 0});
    }
    kernels().sum_floats(values, count, found);
    ASSERT_EQ(found.zeros, wanted.zeros) << count;
    ASSERT_EQ(found.min, wanted.min) << count;
    ASSERT_EQ(found.max, wanted.max) << count;
    ASSERT_NEAR(found.sum, wanted.sum, 1e-11) << count;
    ASSERT_NEAR(found.squares, wanted.squares, 1e-11) << count;
  }
}

TEST_P(EachKernels, AddUpAnyNumberOfDoublesScaled) {
  const std::vector<float> floats = random_floats(700, 2);
  const std::vector<double> all(floats.begin(), floats.end());
  for (std::size_t count = 0; count < 300; ++count) {
    const double* values = all.data() + count;
    Sums wanted, found;
    for (std::size_t i = 0; i < count; ++i) {
      const double x = values[i], scaled = x / 4;
      wanted.add({scaled, scaled * scaled, x, x, x == 0});
    }
    kernels().sum_doubles(values, count, 0.25, found);
    ASSERT_EQ(found.zeros, wanted.zeros) << count;
    ASSERT_EQ(found.min, wanted.min) << count;
    ASSERT_EQ(found.max, wanted.max) << count;
    ASSERT_NEAR(found.sum, wanted.sum, 1e-11) << count;
    ASSERT_NEAR(found.squares, wanted.squares, 1e-11) << count;
  }
}

TEST_P(EachKernels, TellOfValuesThatAreNotFinite) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (std::size_t place = 0; place < 100; ++place) {
      std::vector<float> values(100, std::numeric_limits<float>::max());
      values[place] = bad;
      Sums found;
      kernels().sum_floats(values.data(), values.size(), found);
      EXPECT_FALSE(std::isfinite(found.squares));
    }
  }
  const std::vector<float> largest(1000, std::numeric_limits<float>::max());
  Sums found;
  kernels().sum_floats(largest.data(), largest.size(), found);
  EXPECT_TRUE(std::isfinite(found.squares));
}

TEST_P(EachKernels, FindTheBinOfAnyNumberOfValues) {
  const std::vector<float> all = random_floats(10000, 3);
  const auto [low, high] = std::minmax_element(all.begin(), all.end());
  for (const bool indexed : {false, true}) {
    const Edges<float> edges = edges_between(*low, *high, indexed);
    for (const std::size_t count : {0, 1, 7, 15, 16, 17, 239, 240, 241, 4079, 4080, 4081, 10000}) {
      const std::vector<float> some(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
      Counts found{};
      kernels().bin_floats(some.data(), count, edges, found);
      EXPECT_EQ(found, plain_bins(some, edges)) << count << (indexed ? " indexed" : " compared");
    }
  }
}

// The estimate of a bin is off by rounding; the values around an edge are where that shows.
TEST_P(EachKernels, FindTheBinOfValuesAroundEveryEdge) {
  std::mt19937 random(4);
  std::uniform_real_distribution<float> size(-30, 30);
  for (int round = 0; round < 500; ++round) {
    float low = std::ldexp(size(random), static_cast<int>(size(random)));
    float high = round % 2 == 0 ? low + std::ldexp(1.0F + std::abs(size(random)), -3)
                                : std::ldexp(size(random), static_cast<int>(size(random)));
    // As narrow as can be: the edges lie between neighbouring values.
    if (round % 5 == 0)
      for (high = low; high < low + std::abs(low) * 1e-6F + 1e-30F;)
        high = std::nextafter(high, std::numeric_limits<float>::infinity());
    if (low > high) std::swap(low, high);
    if (low == high) continue;
    const Edges<float> edges = edges_between(low, high, true);
    std::vector<float> values{low, high};
    for (std::size_t i = 0; i < 15; ++i) {
      float below = edges.upper[i], above = edges.upper[i];
      for (int step = 0; step < 40; ++step) {
        values.push_back(std::clamp(below, low, high));
        values.push_back(std::clamp(above, low, high));
        below = std::nextafter(below, low);
        above = std::nextafter(above, high);
      }
    }
    Counts found{};
    kernels().bin_floats(values.data(), values.size(), edges, found);
    ASSERT_EQ(found, plain_bins(values, edges)) << low << " to " << high;
  }
}

TEST_P(EachKernels, FindTheBinOfDoubles) {
  const std::vector<float> floats = random_floats(5003, 5);
  std::vector<double> all(floats.begin(), floats.end());
  const auto [low, high] = std::minmax_element(all.begin(), all.end());
  for (const bool indexed : {false, true}) {
    const Edges<double> edges = edges_between(*low, *high, indexed);
    std::vector<double> values = all;
    for (std::size_t i = 0; i < 15; ++i) {
      values.push_back(edges.upper[i]);
      values.push_back(std::nextafter(edges.upper[i], *low));
    }
    Counts found{};
    kernels().bin_doubles(values.data(), values.size(), edges, found);
    EXPECT_EQ(found, plain_bins(values, edges));
  }
}

TEST_P(EachKernels, AddUpDeviations) {
  const std::vector<float> floats = random_floats(1003, 6);
  const std::vector<double> doubles(floats.begin(), floats.end());
  Deviations wanted, of_floats, of_doubles;
  for (const double x : doubles) wanted.add({x - 0.5, (x - 0.5) * (x - 0.5)});
  kernels().deviate_floats(floats.data(), floats.size(), 0.5, of_floats);
  kernels().deviate_doubles(doubles.data(), doubles.size(), 2, 1.0, of_doubles);
  EXPECT_NEAR(of_floats.sum, wanted.sum, 1e-10);
  EXPECT_NEAR(of_floats.squares, wanted.squares, 1e-9);
  EXPECT_NEAR(of_doubles.sum, 2 * wanted.sum, 1e-10);
  EXPECT_NEAR(of_doubles.squares, 4 * wanted.squares, 1e-8);
}

TEST_P(EachKernels, KeepWhatIsFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  for (std::size_t count = 0; count < 200; ++count) {
    std::vector<float> values = random_floats(count, 7), kept;
    NonFinite wanted;
    for (std::size_t i = 0; i < count; ++i) {
      if (i % 5 == 2) values[i] = i % 2 == 0 ? std::nanf("") : i % 3 == 0 ? inf : -inf;
      if (count % 7 == 0) values[i] = std::nanf("");  // nothing is left
      wanted.nans += std::isnan(values[i]);
      wanted.infinities += std::isinf(values[i]);
      wanted.minus_infinities += values[i] == -inf;
      if (std::isfinite(values[i])) kept.push_back(values[i]);
    }
    std::vector<double> doubles(values.begin(), values.end());
    NonFinite others, of_doubles{.nans = 10, .infinities = 30, .minus_infinities = 20};
    values.resize(kernels().keep_finite_floats(values.data(), count, others));
    doubles.resize(kernels().keep_finite_doubles(doubles.data(), count, of_doubles));
    ASSERT_EQ(values, kept) << count;
    ASSERT_EQ(std::vector<float>(doubles.begin(), doubles.end()), kept) << count;
    ASSERT_EQ(others.nans, wanted.nans) << count;
    ASSERT_EQ(others.infinities, wanted.infinities) << count;
    ASSERT_EQ(others.minus_infinities, wanted.minus_infinities) << count;
    ASSERT_EQ(of_doubles.nans, wanted.nans + 10) << "counted on top, " << count;
    ASSERT_EQ(of_doubles.infinities, wanted.infinities + 30) << count;
    ASSERT_EQ(of_doubles.minus_infinities, wanted.minus_infinities + 20) << count;
  }
}

float plain_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == 31)
    return fraction != 0 ? std::nanf("") : sign * std::numeric_limits<float>::infinity();
  return sign * (exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                               : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25));
}

TEST_P(EachKernels, WidenEveryPattern) {
  std::vector<std::uint16_t> patterns(65536 + 5);  // and a rest that fills no vector
  std::iota(patterns.begin(), patterns.end(), std::uint16_t{0});
  std::vector<float> found(patterns.size());
  const auto same = [](float a, float b) {
    return std::isnan(a) ? std::isnan(b)
                         : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  };
  kernels().widen_halves(patterns.data(), patterns.size(), found.data());
  for (std::size_t i = 0; i < patterns.size(); ++i)
    ASSERT_TRUE(same(plain_half(patterns[i]), found[i])) << patterns[i];
  kernels().widen_bfloats(patterns.data(), patterns.size(), found.data());
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const auto wanted = std::bit_cast<float>(static_cast<std::uint32_t>(patterns[i]) << 16);
    ASSERT_TRUE(same(wanted, found[i])) << patterns[i];
  }
}

}  // namespace
}  // namespace sonde::snapshot
