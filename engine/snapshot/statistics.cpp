#include "engine/snapshot/statistics.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace sonde::snapshot {

namespace {

template <typename T>
T load(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double half(std::uint16_t bits) noexcept {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31)
    return fraction ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

double small_float(std::uint8_t bits, Element kind) noexcept {
  const bool wide = kind == Element::kFloat8E5M2 || kind == Element::kFloat8E5M2FNUZ;
  const bool no_negative_zero =
      kind == Element::kFloat8E4M3FNUZ || kind == Element::kFloat8E5M2FNUZ;
  const int fraction_bits = wide ? 2 : 3;
  const int bias = (wide ? 15 : 7) + (no_negative_zero ? 1 : 0);
  const int exponent = (bits & 127) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits >> 7 ? -1 : 1;
  if (no_negative_zero && bits == 128) return std::nan("");
  if (kind == Element::kFloat8E4M3FN && (bits & 127) == 127) return std::nan("");
  if (kind == Element::kFloat8E5M2 && exponent == 31)
    return fraction ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

double value_at(const std::byte* at, Element element) noexcept {
  switch (element) {
    case Element::kFloat64:
      return load<double>(at);
    case Element::kFloat32:
      return load<float>(at);
    case Element::kFloat16:
      return half(load<std::uint16_t>(at));
    case Element::kBFloat16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(at)) << 16);
    case Element::kInt64:
      return static_cast<double>(load<std::int64_t>(at));
    case Element::kInt32:
      return load<std::int32_t>(at);
    case Element::kInt16:
      return load<std::int16_t>(at);
    case Element::kInt8:
      return load<std::int8_t>(at);
    case Element::kUInt64:
      return static_cast<double>(load<std::uint64_t>(at));
    case Element::kUInt32:
      return load<std::uint32_t>(at);
    case Element::kUInt16:
      return load<std::uint16_t>(at);
    case Element::kUInt8:
      return load<std::uint8_t>(at);
    case Element::kBool:
      return load<std::uint8_t>(at) != 0;
    default:
      return small_float(load<std::uint8_t>(at), element);
  }
}

template <typename Visit>
void each_value(const Tensor& tensor, std::uint32_t dim, std::int64_t offset,
                const std::vector<std::int64_t>& strides, Visit& visit) {
  if (dim == tensor.rank) {
    const auto* base = static_cast<const std::byte*>(tensor.data);
    const auto size = static_cast<std::int64_t>(element_size(tensor.element));
    visit(value_at(base + offset * size, tensor.element));
    return;
  }
  for (std::int64_t i = 0; i < tensor.sizes[dim]; ++i)
    each_value(tensor, dim + 1, offset + i * strides[dim], strides, visit);
}

Statistics measure_one(const Tensor& tensor) {
  std::vector<std::int64_t> strides(tensor.rank);
  std::int64_t step = 1;
  for (std::uint32_t i = tensor.rank; i-- > 0; step *= tensor.sizes[i])
    strides[i] = tensor.strides != nullptr ? tensor.strides[i] : step;
  Statistics found;
  long double sum = 0, squares = 0;
  auto first = [&](double x) {
    if (std::isnan(x)) {
      ++found.nan_count;
    } else if (std::isinf(x)) {
      ++found.inf_count;
    } else {
      if (found.count++ == 0) found.min = found.max = x;
      found.min = std::min(found.min, x);
      found.max = std::max(found.max, x);
      found.zero_count += x == 0;
      sum += x;
    }
  };
  each_value(tensor, 0, 0, strides, first);
  if (found.count == 0) return found;
  const auto count = static_cast<long double>(found.count);
  const long double mean = sum / count;
  long double deviations = 0;
  auto second = [&](double x) {
    if (!std::isfinite(x)) return;
    deviations += (x - mean) * (x - mean);
    squares += static_cast<long double>(x) * x;
    int bin = 0;
    for (int i = 1; i < Statistics::kBins; ++i) bin += x >= found.edge(i) && found.min < found.max;
    ++found.counts[static_cast<std::size_t>(bin)];
  };
  each_value(tensor, 0, 0, strides, second);
  found.mean = static_cast<double>(mean);
  found.std = static_cast<double>(std::sqrt(deviations / count));
  found.norm = static_cast<double>(std::sqrt(squares));
  return found;
}

}  // namespace

double Statistics::edge(int i) const noexcept {
  if (count == 0) return 0;
  const double part = i / 16.0;
  if (min == max) return min + part;
  if (i == kBins) return max;
  const double range = max - min;
  return std::isfinite(range) ? min + range * part : min * (1 - part) + max * part;
}

void measure(std::span<const Tensor> tensors, std::span<Statistics> out, unsigned /*threads*/) {
  for (std::size_t i = 0; i < tensors.size(); ++i) out[i] = measure_one(tensors[i]);
}

}  // namespace sonde::snapshot
