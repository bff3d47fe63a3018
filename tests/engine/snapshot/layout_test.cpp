#include "engine/snapshot/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace sonde::snapshot {
namespace {

using Dims = std::vector<std::int64_t>;

// A tensor of int32 values. Each is its own position, so the values show which places were visited.
struct Numbered {
  std::vector<std::int32_t> memory = std::vector<std::int32_t>(5000);
  Dims sizes, strides;
  std::int64_t offset = 0;

  Numbered(Dims sizes_in, Dims strides_in, std::int64_t offset_in = 0)
      : sizes(std::move(sizes_in)), strides(std::move(strides_in)), offset(offset_in) {
    std::iota(memory.begin(), memory.end(), 0);
  }
  Layout layout() const {
    return Layout({memory.data() + offset, Element::kInt32,
                   static_cast<std::uint32_t>(sizes.size()), sizes.data(),
                   strides.empty() ? nullptr : strides.data()});
  }
  std::vector<std::int32_t> visited(std::uint64_t piece) const {
    const Layout found = layout();
    std::vector<std::int32_t> out;
    for (std::uint64_t at = 0; at < found.size(); at += piece)
      found.each_tile(at, std::min(found.size(), at + piece), [&](const Tile& tile) {
        const auto* values = reinterpret_cast<const std::int32_t*>(tile.at);
        for (std::uint64_t row = 0; row < tile.rows; ++row)
          for (std::uint64_t i = 0; i < tile.count; ++i)
            out.push_back(values[static_cast<std::int64_t>(row) * tile.row_stride +
                                 static_cast<std::int64_t>(i) * tile.stride]);
      });
    std::sort(out.begin(), out.end());
    return out;
  }
  // Every element by its indices, those of stride 0 once.
  std::vector<std::int32_t> wanted() const {
    std::vector<std::int32_t> out{static_cast<std::int32_t>(offset)};
    std::int64_t dense = 1;
    for (std::size_t dim = sizes.size(); dim-- > 0;) {
      const std::int64_t stride = strides.empty() ? dense : strides[dim];
      dense *= sizes[dim];
      std::vector<std::int32_t> more;
      for (const std::int32_t place : out)
        for (std::int64_t i = 0; i < (stride == 0 ? 1 : sizes[dim]); ++i)
          more.push_back(static_cast<std::int32_t>(place + i * stride));
      out = more;
    }
    std::sort(out.begin(), out.end());
    return out;
  }
};

TEST(Layout, VisitsEveryElementOnceInPiecesOfAnySize) {
  const Numbered tensors[] = {
      {{}, {}},
      {{7}, {}},
      {{3, 4, 5}, {}},
      {{3, 4, 5}, {1, 3, 12}},
      {{5, 7}, {20, 2}},
      {{5, 7}, {-20, 2}, 100},
      {{4, 3, 5}, {30, -7, 1}, 200},
      {{4, 1, 5}, {5, 999, 1}},
      {{6, 9}, {0, 1}},
      {{2, 3, 4}, {4, 0, 1}},
      {{10, 10}, {1, 1}},  // windows that overlap
      {{2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, {}},
  };
  for (const Numbered& tensor : tensors)
    for (const std::uint64_t piece : {1, 2, 3, 11, 64, 5000})
      EXPECT_EQ(tensor.visited(piece), tensor.wanted()) << tensor.sizes.size() << " " << piece;
}

TEST(Layout, ATransposedTensorIsOneArray) {
  EXPECT_TRUE(Numbered({3, 4, 5}, {}).layout().dense());
  EXPECT_TRUE(Numbered({5, 4, 3}, {1, 5, 20}).layout().dense());
  EXPECT_TRUE(Numbered({3, 1, 5}, {5, 77, 1}).layout().dense());
  EXPECT_TRUE(Numbered({10}, {-1}, 9).layout().dense());
  EXPECT_FALSE(Numbered({10}, {2}).layout().dense());
  EXPECT_FALSE(Numbered({4, 5}, {6, 1}).layout().dense());
}

TEST(Layout, ExpandedDimensionsRepeat) {
  const Layout found = Numbered({6, 9, 2}, {0, 1, 0}).layout();
  EXPECT_EQ(found.size(), 9u);
  EXPECT_EQ(found.repeats(), 12u);
  EXPECT_TRUE(found.dense());
  EXPECT_EQ(Numbered({6, 0}, {0, 1}).layout().size(), 0u);
  EXPECT_EQ(Numbered({}, {}).layout().size(), 1u);
}

}  // namespace
}  // namespace sonde::snapshot
