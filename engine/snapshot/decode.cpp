#include "engine/snapshot/decode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "engine/snapshot/kernels.h"
#include "engine/snapshot/layout.h"
#include "engine/snapshot/tensor.h"

namespace sonde::snapshot {

namespace {

template <typename T>
T load(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);  // the memory may be unaligned
  return value;
}

// `Count` is a constant where the length of a row is known to the compiler.
template <typename Source, typename Out, typename Count>
void convert_rows(const Tile& tile, Count count, Out* out) noexcept {
  const std::int64_t step = tile.stride * static_cast<std::int64_t>(sizeof(Source));
  const std::int64_t row_step = tile.row_stride * static_cast<std::int64_t>(sizeof(Source));
  const std::byte* row = tile.at;
  for (std::uint64_t i = 0; i < tile.rows; ++i, row += row_step) {
    const std::byte* at = row;
    for (std::uint64_t j = 0; j < count; ++j, at += step)
      *out++ = static_cast<Out>(load<Source>(at));
  }
}

template <typename Source, typename Out>
void convert(const Tile& tile, Out* out) noexcept {
  if (tile.stride == 1 && tile.count >= 16) {
    const std::byte* row = tile.at;
    for (std::uint64_t i = 0; i < tile.rows; ++i, out += tile.count) {
      for (std::uint64_t j = 0; j < tile.count; ++j)
        out[j] = static_cast<Out>(load<Source>(row + j * sizeof(Source)));
      row += tile.row_stride * static_cast<std::int64_t>(sizeof(Source));
    }
    return;
  }
  switch (tile.count) {  // as in the last dimension of a convolution, or of coordinates
    case 2:
      return convert_rows<Source>(tile, std::integral_constant<std::uint64_t, 2>(), out);
    case 3:
      return convert_rows<Source>(tile, std::integral_constant<std::uint64_t, 3>(), out);
    case 4:
      return convert_rows<Source>(tile, std::integral_constant<std::uint64_t, 4>(), out);
    default:
      return convert_rows<Source>(tile, tile.count, out);
  }
}

using Widen = void (*)(const std::uint16_t*, std::size_t, float*);

void widen(Widen kernel, const Tile& tile, float* out) noexcept {
  const auto count = static_cast<std::size_t>(tile.count * tile.rows);
  if (tile.stride == 1 && tile.rows == 1 &&
      reinterpret_cast<std::uintptr_t>(tile.at) % alignof(std::uint16_t) == 0)
    return kernel(reinterpret_cast<const std::uint16_t*>(tile.at), count, out);
  std::array<std::uint16_t, kBlock> close;
  convert<std::uint16_t>(tile, close.data());
  kernel(close.data(), count, out);
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

void decode(Element element, const Kernels& kernels, const Tile& tile, float* out) noexcept {
  switch (element) {
    case Element::kFloat32:
      return convert<float>(tile, out);
    case Element::kFloat16:
      return widen(kernels.widen_halves, tile, out);
    case Element::kBFloat16:
      return widen(kernels.widen_bfloats, tile, out);
    case Element::kInt16:
      return convert<std::int16_t>(tile, out);
    default:
      return convert<std::uint16_t>(tile, out);
  }
}

void decode(Element element, const Kernels& /*kernels*/, const Tile& tile, double* out) noexcept {
  switch (element) {
    case Element::kFloat64:
      return convert<double>(tile, out);
    case Element::kInt64:
      return convert<std::int64_t>(tile, out);
    case Element::kInt32:
      return convert<std::int32_t>(tile, out);
    case Element::kUInt64:
      return convert<std::uint64_t>(tile, out);
    default:
      return convert<std::uint32_t>(tile, out);
  }
}

void PatternCounter::add(const Tile& tile) noexcept {
  const std::byte* row = tile.at;
  for (std::uint64_t n = 0; n < tile.rows; ++n, row += tile.row_stride) {
    const std::byte* at = row;
    std::uint64_t i = 0;
    for (; i + 4 <= tile.count; i += 4, at += 4 * tile.stride)
      for (std::int64_t j = 0; j < 4; ++j)
        ++tables_[static_cast<std::size_t>(j)][static_cast<std::size_t>(at[j * tile.stride])];
    for (; i < tile.count; ++i, at += tile.stride) ++tables_[0][static_cast<std::size_t>(*at)];
  }
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
