// The types of a tensor's values. Compiled for the host and for the GPU, for the latter without any
// other header: plain types, no library.
#pragma once

namespace sonde::snapshot {

// A complex tensor is given as its real and imaginary parts: one more dimension, of size 2.
enum class Element : unsigned char {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat8E4M3FN,
  kFloat8E5M2,
  kFloat8E4M3FNUZ,
  kFloat8E5M2FNUZ,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt64,
  kUInt32,
  kUInt16,
  kUInt8,
  kBool,
};

constexpr unsigned element_size(Element element) noexcept {
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

}  // namespace sonde::snapshot
