// Memory that holds the values of one tensor, as the statistics read it: where, of what type, in
// what order. Owns nothing: the caller keeps the memory alive while it is read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/snapshot/element.h"  // IWYU pragma: export

namespace sonde::snapshot {

constexpr std::size_t element_size(Element element) noexcept {
  switch (element) {
    case Element::kFloat64:
    case Element::kInt64:
    case Element::kUInt64:
      return 8;
    case Element::kFloat32:
    case Element::kInt32:
    case Element::kUInt32:
      return 4;
    case Element::kFloat16:
    case Element::kBFloat16:
    case Element::kInt16:
    case Element::kUInt16:
      return 2;
    default:
      return 1;
  }
}

struct Tensor {
  const void* data = nullptr;
  Element element = Element::kFloat32;
  std::uint32_t rank = 0;
  const std::int64_t* sizes = nullptr;
  const std::int64_t* strides = nullptr;  // in elements; null: contiguous
};

}  // namespace sonde::snapshot
