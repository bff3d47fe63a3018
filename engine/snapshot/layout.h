// Where the values of a tensor lie. No statistic depends on their order, so dimensions are put in
// the order of memory and merged: a transposed tensor is one run again.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/snapshot/tensor.h"

namespace sonde::snapshot {

// Some rows of equal length; strides in elements.
struct Tile {
  const std::byte* at;
  std::int64_t stride;
  std::uint64_t count;
  std::uint64_t rows;
  std::int64_t row_stride;
};

class Layout {
 public:
  Layout() = default;
  explicit Layout(const Tensor& tensor) noexcept;

  // Values that are different elements of memory. Each counts `repeats` times, because a dimension
  // of stride 0 repeats them.
  std::uint64_t size() const noexcept { return size_; }
  std::uint64_t repeats() const noexcept { return repeats_; }
  const std::byte* base() const noexcept { return base_; }
  // True when all values are one array at base().
  bool dense() const noexcept { return rank_ == 0 || (rank_ == 1 && dims_[0].stride == 1); }

  // Reading them costs more than the bytes: every n-th element, or short rows.
  bool scattered(std::int64_t long_row) const noexcept {
    return !dense() && (dims_[rank_ - 1].stride != 1 || dims_[rank_ - 1].size < long_row);
  }

  // visit(Tile) for all of the values [begin, end).
  template <typename Visit>
  void each_tile(std::uint64_t begin, std::uint64_t end, Visit visit) const;

 private:
  struct Dim {
    std::int64_t size;
    std::int64_t stride;
  };
  // Every one is at least 2 long, so more can not be addressed.
  static constexpr std::size_t kMostDims = 64;

  bool add(std::int64_t size, std::int64_t stride) noexcept;
  void merge() noexcept;

  const std::byte* base_ = nullptr;
  std::int64_t element_size_ = 1;
  std::uint64_t size_ = 0;
  std::uint64_t repeats_ = 1;
  std::size_t rank_ = 0;
  std::array<Dim, kMostDims> dims_;  // the first `rank_`, the longest stride first
};

template <typename Visit>
void Layout::each_tile(std::uint64_t begin, std::uint64_t end, Visit visit) const {
  if (rank_ == 0) {
    if (begin < end) visit(Tile{base_, 1, 1, 1, 0});
    return;
  }
  std::array<std::int64_t, kMostDims> at;
  const std::byte* address = base_;
  std::uint64_t rest = begin;
  for (std::size_t i = rank_; i-- > 0;) {
    at[i] = static_cast<std::int64_t>(rest % static_cast<std::uint64_t>(dims_[i].size));
    rest /= static_cast<std::uint64_t>(dims_[i].size);
    address += at[i] * dims_[i].stride * element_size_;
  }
  const std::size_t last = rank_ - 1;
  const Dim& inner = dims_[last];
  const auto row = static_cast<std::uint64_t>(inner.size);
  for (std::uint64_t left = end - begin; left != 0;) {
    // What is left of a row, or all rows of the dimension around it that are wanted whole.
    Tile tile{address, inner.stride, std::min(left, row - static_cast<std::uint64_t>(at[last])), 1,
              0};
    if (last != 0 && tile.count == row) {
      const Dim& outer = dims_[last - 1];
      tile.rows = std::min(left / row, static_cast<std::uint64_t>(outer.size - at[last - 1]));
      tile.row_stride = outer.stride;
    }
    visit(tile);
    left -= tile.count * tile.rows;
    if (left == 0) break;
    address -= at[last] * inner.stride * element_size_;
    at[last] = 0;
    auto steps = static_cast<std::int64_t>(tile.rows);  // more than one only in the first dimension
    for (std::size_t i = last; i-- > 0; steps = 1) {
      address += steps * dims_[i].stride * element_size_;
      at[i] += steps;
      if (at[i] < dims_[i].size) break;
      address -= dims_[i].size * dims_[i].stride * element_size_;
      at[i] = 0;
    }
  }
}

}  // namespace sonde::snapshot
