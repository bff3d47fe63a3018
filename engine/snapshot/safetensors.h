// The head of a safetensors file: 8 bytes that hold the length of the JSON, the JSON, padded with
// spaces to a multiple of 8. The bytes of the tensors follow without gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/snapshot/tensor.h"

namespace sonde::snapshot {

struct SafeTensor {
  std::string name;
  std::string_view type;  // "F32"; see safe_type
  std::vector<std::int64_t> shape;

  std::uint64_t elements() const noexcept;
  std::uint64_t bytes() const noexcept;
};

// The format's name for it.
std::string_view safe_type(Element element) noexcept;
// The type for pairs of float32. There is none for pairs of float64: they stay a dimension of 2.
inline constexpr std::string_view kComplexFloat32 = "C64";

// In which order the tensors go into a file: the widest elements first, so that each begins at a
// multiple of its element's size (PyTorch cannot read it otherwise), and those of equal width as
// they are.
std::vector<std::size_t> file_order(std::span<const SafeTensor> tensors);

// The head of a file that holds these in this order. A name that was there before gets a suffix,
// `w#2`, so that none is lost.
std::string safetensors_head(std::span<const SafeTensor> tensors);

}  // namespace sonde::snapshot
