#include "engine/snapshot/decode.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace sonde::snapshot {

namespace {

template <typename T>
T load(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);  // the memory may be unaligned
  return value;
}

template <typename Source, typename Out>
void convert(const std::byte* at, std::int64_t stride, std::size_t count, Out* out) noexcept {
  if (stride == 1) {
    for (std::size_t i = 0; i < count; ++i)
      out[i] = static_cast<Out>(load<Source>(at + i * sizeof(Source)));
    return;
  }
  const std::int64_t step = stride * static_cast<std::int64_t>(sizeof(Source));
  for (std::size_t i = 0; i < count; ++i, at += step) out[i] = static_cast<Out>(load<Source>(at));
}

using Widen = void (*)(const std::uint16_t*, std::size_t, float*);

void widen(Widen kernel, const std::byte* at, std::int64_t stride, std::size_t count,
           float* out) noexcept {
  if (stride == 1 && reinterpret_cast<std::uintptr_t>(at) % alignof(std::uint16_t) == 0)
    return kernel(reinterpret_cast<const std::uint16_t*>(at), count, out);
  std::array<std::uint16_t, 512> close;
  for (std::size_t done = 0; done < count;) {
    const std::size_t now = std::min(count - done, close.size());
    convert<std::uint16_t>(at, stride, now, close.data());
    kernel(close.data(), now, out + done);
    at += static_cast<std::int64_t>(now) * stride * 2;
    done += now;
  }
}

struct SmallFloat {
  int fraction_bits;
  int bias;
  bool infinities;     // with NaN beside them, as IEEE has it
  bool unsigned_zero;  // the pattern of -0 is the only NaN
};

SmallFloat small_float(Element element) noexcept {
  switch (element) {
    case Element::kFloat8E5M2:
      return {2, 15, true, false};
    case Element::kFloat8E5M2FNUZ:
      return {2, 16, false, true};
    case Element::kFloat8E4M3FNUZ:
      return {3, 8, false, true};
    default:
      return {3, 7, false, false};
  }
}

double value_of(const SmallFloat& kind, std::uint8_t pattern) noexcept {
  const int size = pattern & 0x7F;
  const int exponent = size >> kind.fraction_bits;
  const int fraction = size & ((1 << kind.fraction_bits) - 1);
  const double sign = pattern & 0x80 ? -1 : 1;
  if (kind.unsigned_zero && pattern == 0x80) return std::nan("");
  if (kind.infinities && exponent == 0x1F)
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (!kind.infinities && !kind.unsigned_zero && size == 0x7F) return std::nan("");
  const int unit = std::max(exponent, 1) - kind.bias - kind.fraction_bits;
  const int whole = exponent == 0 ? fraction : (1 << kind.fraction_bits) + fraction;
  return sign * std::ldexp(whole, unit);
}

}  // namespace

void decode(Element element, const Kernels& kernels, const std::byte* at, std::int64_t stride,
            std::size_t count, float* out) noexcept {
  switch (element) {
    case Element::kFloat32:
      return convert<float>(at, stride, count, out);
    case Element::kFloat16:
      return widen(kernels.widen_halves, at, stride, count, out);
    case Element::kBFloat16:
      return widen(kernels.widen_bfloats, at, stride, count, out);
    case Element::kInt16:
      return convert<std::int16_t>(at, stride, count, out);
    default:
      return convert<std::uint16_t>(at, stride, count, out);
  }
}

void decode(Element element, const Kernels& /*kernels*/, const std::byte* at, std::int64_t stride,
            std::size_t count, double* out) noexcept {
  switch (element) {
    case Element::kFloat64:
      return convert<double>(at, stride, count, out);
    case Element::kInt64:
      return convert<std::int64_t>(at, stride, count, out);
    case Element::kInt32:
      return convert<std::int32_t>(at, stride, count, out);
    case Element::kUInt64:
      return convert<std::uint64_t>(at, stride, count, out);
    default:
      return convert<std::uint32_t>(at, stride, count, out);
  }
}

void PatternCounter::add(const std::byte* at, std::int64_t stride, std::size_t count) noexcept {
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4, at += 4 * stride)
    for (std::int64_t j = 0; j < 4; ++j)
      ++tables_[static_cast<std::size_t>(j)][static_cast<std::size_t>(at[j * stride])];
  for (; i < count; ++i, at += stride) ++tables_[0][static_cast<std::size_t>(*at)];
}

void PatternCounter::give(Patterns& out) const noexcept {
  for (const auto& table : tables_)
    for (std::size_t value = 0; value < out.size(); ++value) out[value] += table[value];
}

double value_of(Element element, std::uint8_t pattern) noexcept {
  switch (element) {
    case Element::kInt8:
      return static_cast<std::int8_t>(pattern);
    case Element::kUInt8:
      return pattern;
    case Element::kBool:
      return pattern != 0;
    default:
      return value_of(small_float(element), pattern);
  }
}

}  // namespace sonde::snapshot
