// Decodes elements of a tensor into numbers that the kernels can work with: elements of 16 bits
// become float, wider ones double. Nothing is lost except digits of integers beyond 2^53. Elements
// of 8 bits are not decoded one by one: there are only 256 values, which are counted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/snapshot/kernels.h"
#include "engine/snapshot/layout.h"
#include "engine/snapshot/tensor.h"

namespace sonde::snapshot {

enum class Number : std::uint8_t { kPattern, kFloat, kDouble };

constexpr Number number_of(Element element) noexcept {
  if (element_size(element) == 1) return Number::kPattern;
  return element_size(element) == 2 || element == Element::kFloat32 ? Number::kFloat
                                                                    : Number::kDouble;
}

// Values decoded at a time: they stay in the nearest cache.
constexpr std::size_t kBlock = 4096;

// All of a tile of at most kBlock values, row after row. What number_of says decides which one may
// be called.
void decode(Element element, const Kernels& kernels, const Tile& tile, float* out) noexcept;
void decode(Element element, const Kernels& kernels, const Tile& tile, double* out) noexcept;

using Patterns = std::array<std::uint64_t, 256>;

// Counts how often each byte occurs. At most 2^32 bytes may be added between two calls of give.
class PatternCounter {
 public:
  void add(const Tile& tile) noexcept;
  void give(Patterns& out) const noexcept;

 private:
  // Equal neighbours would wait for each other's counter.
  std::array<std::array<std::uint32_t, 256>, 4> tables_{};
};

// The value of an element of one byte.
double value_of(Element element, std::uint8_t pattern) noexcept;

}  // namespace sonde::snapshot
