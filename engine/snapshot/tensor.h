// Memory that holds the values of one tensor, as the statistics read it: where, of what type, in
// what order. Owns nothing: the caller keeps the memory alive while it is read.
#pragma once

#include <cstdint>

#include "engine/snapshot/element.h"  // IWYU pragma: export

namespace sonde::snapshot {

struct Tensor {
  const void* data = nullptr;
  Element element = Element::kFloat32;
  std::uint32_t rank = 0;
  const std::int64_t* sizes = nullptr;
  const std::int64_t* strides = nullptr;  // in elements; null: contiguous
};

}  // namespace sonde::snapshot
