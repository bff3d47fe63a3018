#include "engine/snapshot/layout.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/snapshot/tensor.h"

namespace sonde::snapshot {

Layout::Layout(const Tensor& tensor) noexcept
    : base_(static_cast<const std::byte*>(tensor.data)),
      element_size_(static_cast<std::int64_t>(element_size(tensor.element))),
      size_(1) {
  std::int64_t dense = 1;
  for (std::uint32_t i = tensor.rank; i-- > 0;) {
    const std::int64_t size = tensor.sizes[i];
    if (size <= 0) {
      size_ = 0;
      return;
    }
    if (!add(size, tensor.strides != nullptr ? tensor.strides[i] : dense)) return;
    dense *= size;
  }
  merge();
}

bool Layout::add(std::int64_t size, std::int64_t stride) noexcept {
  if (size == 1) return true;
  if (stride == 0) {
    repeats_ *= static_cast<std::uint64_t>(size);
    return true;
  }
  if (stride < 0) {  // the same elements from the other end
    base_ += stride * (size - 1) * element_size_;
    stride = -stride;
  }
  if (rank_ == kMostDims) {
    size_ = 0;
    return false;
  }
  size_ *= static_cast<std::uint64_t>(size);
  dims_[rank_++] = {size, stride};
  return true;
}

void Layout::merge() noexcept {
  if (rank_ < 2) return;
  const auto first = dims_.begin(), last = first + static_cast<std::ptrdiff_t>(rank_);
  if (!std::is_sorted(first, last, [](const Dim& a, const Dim& b) { return a.stride < b.stride; }))
    std::sort(first, last, [](const Dim& a, const Dim& b) { return a.stride < b.stride; });
  std::size_t kept = 0;  // dims_[0 .. kept], the shortest stride first
  for (std::size_t i = 1; i < rank_; ++i) {
    if (dims_[i].stride == dims_[kept].stride * dims_[kept].size)
      dims_[kept].size *= dims_[i].size;
    else
      dims_[++kept] = dims_[i];
  }
  rank_ = kept + 1;
  std::reverse(dims_.begin(), dims_.begin() + static_cast<std::ptrdiff_t>(rank_));
}

}  // namespace sonde::snapshot
