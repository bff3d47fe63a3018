#include "engine/snapshot/statistics.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "engine/snapshot/measure.h"
#include "engine/snapshot/usable_kernels.h"

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
  EXPECT_EQ(found.minus_inf_count, 1u);
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

TEST(Statistics, DoublesAtTheEndsOfTheirRange) {
  for (const double unit : {1e308, 1e200, 1e-200, 1e-310}) {
    const Statistics found = of<double>({unit, unit, 0, 0}, Element::kFloat64);
    EXPECT_NEAR(found.mean / unit, 0.5, 1e-6) << unit;
    EXPECT_NEAR(found.norm / unit, std::sqrt(2.0), 1e-6) << unit;
    EXPECT_EQ(found.counts[0], 2u) << unit;
    EXPECT_EQ(found.counts[15], 2u) << unit;
  }
  const double top = std::numeric_limits<double>::max();
  EXPECT_EQ(of<double>({top, top, top}, Element::kFloat64).mean, top);
  EXPECT_EQ(of<double>({top, -top}, Element::kFloat64).mean, 0);
  EXPECT_EQ(of<double>({top, -top}, Element::kFloat64).std, top);
}

TEST(Statistics, ValuesCloseTogetherFarFromZero) {
  std::vector<float> values;
  for (int i = 0; i < 1000; ++i) values.push_back(i % 2 == 0 ? 1.0F : 1.0000001F);
  const Statistics found = of(values, Element::kFloat32);
  const double gap = static_cast<double>(1.0000001F) - 1.0;
  EXPECT_NEAR(found.std, gap / 2, gap * 1e-9);
  EXPECT_NEAR(found.mean, 1 + gap / 2, 1e-15);
}

TEST(Statistics, Bytes) {
  const Statistics small = of<std::int8_t>({-128, 127, 0, 0}, Element::kInt8);
  EXPECT_EQ(small.min, -128);
  EXPECT_EQ(small.max, 127);
  EXPECT_EQ(small.zero_count, 2u);
  const Statistics flags = of<std::uint8_t>({0, 1, 255}, Element::kBool);
  EXPECT_DOUBLE_EQ(flags.mean, 2.0 / 3);  // any pattern but zero is true
  const auto patterns = [] {
    std::vector<std::uint8_t> all(256);
    std::iota(all.begin(), all.end(), std::uint8_t{0});
    return all;
  }();
  EXPECT_EQ(of(patterns, Element::kFloat8E4M3FN).max, 448);
  EXPECT_EQ(of(patterns, Element::kFloat8E4M3FN).nan_count, 2u);
  EXPECT_EQ(of(patterns, Element::kFloat8E5M2).max, 57344);
  EXPECT_EQ(of(patterns, Element::kFloat8E5M2).nan_count, 6u);
  EXPECT_EQ(of(patterns, Element::kFloat8E5M2).inf_count, 2u);
  EXPECT_EQ(of(patterns, Element::kFloat8E5M2).minus_inf_count, 1u);
  EXPECT_EQ(of(patterns, Element::kFloat8E4M3FNUZ).max, 240);
  EXPECT_EQ(of(patterns, Element::kFloat8E4M3FNUZ).nan_count, 1u);
  EXPECT_EQ(of(patterns, Element::kFloat8E5M2FNUZ).max, 57344);
  EXPECT_EQ(of(patterns, Element::kFloat8E5M2FNUZ).zero_count, 1u);
}

std::vector<float> many(std::size_t count) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  values[count / 2] = std::nanf("");
  values[count / 2 + 1] = -std::numeric_limits<float>::infinity();
  return values;
}

bool same(const Statistics& a, const Statistics& b) {
  return a.mean == b.mean && a.std == b.std && a.min == b.min && a.max == b.max &&
         a.norm == b.norm && a.count == b.count && a.nan_count == b.nan_count &&
         a.inf_count == b.inf_count && a.minus_inf_count == b.minus_inf_count &&
         a.zero_count == b.zero_count && a.counts == b.counts;
}

TEST(Statistics, DoNotDependOnTheNumberOfThreads) {
  const std::vector<float> values = many(1 << 20);
  const std::int64_t sizes[] = {1 << 20, 1 << 19, 1000, 0, 70000};
  for (const Kernels* kernels : usable_kernels()) {
    std::vector<Tensor> tensors;
    for (int i = 0; i < 20; ++i)
      tensors.push_back({values.data(), i % 3 == 0 ? Element::kBFloat16 : Element::kFloat32, 1,
                         sizes + i % 5, nullptr});
    std::vector<Statistics> alone(tensors.size()), together(tensors.size());
    measure_with(*kernels, tensors, alone, 1);
    for (const unsigned threads : {2U, 3U, 7U}) {
      measure_with(*kernels, tensors, together, threads);
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        EXPECT_TRUE(same(alone[i], together[i])) << kernels->name << " " << threads << " " << i;
        EXPECT_EQ(alone[i].count + alone[i].nan_count + alone[i].inf_count,
                  static_cast<std::uint64_t>(sizes[i % 5]));
      }
    }
  }
}

// More than are gathered at once: rows of any length, every n-th element, of each width.
TEST(Statistics, ManyScatteredValues) {
  const std::vector<float> memory = many(5'000'000);
  struct View {
    std::int64_t sizes[2], strides[2];
  };
  for (const View& view : {View{{1'200'000, 1}, {2, 1}}, View{{400'000, 3}, {4, 1}},
                           View{{300, 6000}, {8000, 1}}, View{{300, 6000}, {16000, 2}}}) {
    for (const Element element : {Element::kFloat32, Element::kInt16, Element::kInt32,
                                  Element::kUInt8, Element::kBFloat16}) {
      const std::size_t width = element_size(element);
      const auto* bytes = reinterpret_cast<const std::byte*>(memory.data());
      std::vector<std::byte> together;
      for (std::int64_t i = 0; i < view.sizes[0]; ++i)
        for (std::int64_t j = 0; j < view.sizes[1]; ++j) {
          const std::byte* at = bytes + (i * view.strides[0] + j * view.strides[1]) *
                                            static_cast<std::int64_t>(width);
          together.insert(together.end(), at, at + width);
        }
      const Tensor tensors[] = {{memory.data(), element, 2, view.sizes, view.strides},
                                {together.data(), element, 2, view.sizes, nullptr}};
      Statistics found[2];
      measure(tensors, found, 2);
      EXPECT_EQ(found[0].counts, found[1].counts);
      EXPECT_EQ(found[0].nan_count, found[1].nan_count);
      EXPECT_EQ(found[0].zero_count, found[1].zero_count);
      EXPECT_NEAR(found[0].std, found[1].std, 1e-12 * found[1].std);
      EXPECT_NEAR(found[0].norm, found[1].norm, 1e-12 * found[1].norm);
    }
  }
}

#if defined(__SSE__)
TEST(Statistics, TheHostsRoundingToZeroChangesNothing) {
  const std::vector<float> values{1e-40F, -1e-40F, 3e-40F, 0};
  const Statistics usual = of(values, Element::kFloat32);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
  const Statistics found = of(values, Element::kFloat32);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_TRUE(same(usual, found));
  EXPECT_EQ(found.zero_count, 1u);
  EXPECT_EQ(after & 0x8040, 0x8040u);
}
#endif

}  // namespace
}  // namespace sonde::snapshot
