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

}  // namespace sonde::snapshot
