// How the kernels read tensors: 16 bytes at a time where they lie in one run of floats, else one by
// one.
#pragma once

#include "engine/snapshot/cuda_layout.h"

using namespace sonde::snapshot;
using namespace sonde::snapshot::cuda;

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

__device__ __forceinline__ float half_to_float(u32 bits) {
  float value;
  asm("{.reg .b16 h; cvt.u16.u32 h, %1; cvt.f32.f16 %0, h;}" : "=f"(value) : "r"(bits));
  return value;
}

// sign, exponent and mantissa of `kMantissa` bits, without the special values.
template <int kMantissa, int kBias>
__device__ __forceinline__ float small_float(u32 bits) {
  const u32 magnitude = bits & 0x7F;
  // As a float of the same exponent; then the bias is put right by a product, which also takes
  // care of the subnormal ones.
  const float value = __uint_as_float(magnitude << (23 - kMantissa)) *
                      __uint_as_float((u32)(127 + 127 - kBias) << 23);
  return __uint_as_float(__float_as_uint(value) | ((bits & 0x80) << 24));
}

constexpr u32 kNanBits = 0x7FFFFFFFu, kInfBits = 0x7F800000u;

template <Element kElement>
struct Of;  // how a 16-byte word of memory is read

template <>
struct Of<Element::kFloat32> {
  static constexpr int kSize = 4;
  static __device__ __forceinline__ float get(const u32* words, int i) {
    return __uint_as_float(words[i]);
  }
};
template <>
struct Of<Element::kBFloat16> {
  static constexpr int kSize = 2;
  static __device__ __forceinline__ float get(const u32* words, int i) {
    return __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xFFFF0000u);
  }
};
template <>
struct Of<Element::kFloat16> {
  static constexpr int kSize = 2;
  static __device__ __forceinline__ float get(const u32* words, int i) {
    return half_to_float(i % 2 == 0 ? words[i / 2] & 0xFFFF : words[i / 2] >> 16);
  }
};

template <Element kElement>
__device__ __forceinline__ float one_float(u64 data, i64 at) {
  const u32 word = Of<kElement>::kSize == 4 ? ((const u32*)data)[at] : ((const u16*)data)[at];
  return Of<kElement>::get(&word, 0);
}

__device__ float float_of_byte(Element element, u32 bits) {
  const float nan = __uint_as_float(kNanBits);
  switch (element) {
    case Element::kFloat8E4M3FN:
      return (bits & 0x7F) == 0x7F ? nan : small_float<3, 7>(bits);
    case Element::kFloat8E4M3FNUZ:
      return bits == 0x80 ? nan : small_float<3, 8>(bits);
    case Element::kFloat8E5M2FNUZ:
      return bits == 0x80 ? nan : small_float<2, 16>(bits);
    default:
      if ((bits & 0x7C) != 0x7C) return small_float<2, 15>(bits);
      return (bits & 3) != 0 ? nan : __uint_as_float(kInfBits | (bits & 0x80) << 24);
  }
}

// Any element of any tensor, as a double.
__device__ double load(const Input& in, i64 index) {
  i64 at = index;
  if (in.rank != 0) {
    at = 0;
    for (int d = in.rank - 1; d >= 0; --d) {
      at += index % in.sizes[d] * in.strides[d];
      index /= in.sizes[d];
    }
  }
  switch (in.element) {
    case Element::kFloat64:
      return ((const double*)in.data)[at];
    case Element::kFloat32:
      return ((const float*)in.data)[at];
    case Element::kFloat16:
      return one_float<Element::kFloat16>(in.data, at);
    case Element::kBFloat16:
      return one_float<Element::kBFloat16>(in.data, at);
    case Element::kFloat8E4M3FN:
    case Element::kFloat8E5M2:
    case Element::kFloat8E4M3FNUZ:
    case Element::kFloat8E5M2FNUZ:
      return float_of_byte(in.element, ((const u8*)in.data)[at]);
    case Element::kInt64:
      return (double)((const i64*)in.data)[at];
    case Element::kInt32:
      return ((const int*)in.data)[at];
    case Element::kInt16:
      return ((const short*)in.data)[at];
    case Element::kInt8:
      return ((const signed char*)in.data)[at];
    case Element::kUInt64:
      return (double)((const u64*)in.data)[at];
    case Element::kUInt32:
      return ((const u32*)in.data)[at];
    case Element::kUInt16:
      return ((const u16*)in.data)[at];
    case Element::kUInt8:
      return ((const u8*)in.data)[at];
    default:
      return ((const u8*)in.data)[at] != 0 ? 1 : 0;
  }
}
