// The inner loops, compiled once for each instruction set (usable_kernels.h chooses at run time).
// They see plain arrays of float or double; everything about layouts and types happens above them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace sonde::snapshot {

struct Sums {
  double sum = 0;
  double squares = 0;  // not finite: a value was not finite, or a sum of doubles overflowed
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  std::uint64_t zeros = 0;

  void add(const Sums& other) noexcept {
    sum += other.sum;
    squares += other.squares;
    min = std::min(min, other.min);
    max = std::max(max, other.max);
    zeros += other.zeros;
  }
};

struct Deviations {
  double sum = 0;
  double squares = 0;

  void add(const Deviations& other) noexcept {
    sum += other.sum;
    squares += other.squares;
  }
};

// Where the bins of finite values between `low` and `high` begin. `upper[i]` is the smallest T that
// belongs into a bin after i, so comparing in T is as good as comparing with the exact edge.
template <typename T>
struct Edges {
  T low = 0;
  // The bin, or the one before it, is the whole part of (x - low) * scale - margin. Zero where that
  // overflows or underflows: count by comparing.
  T scale = 0;
  std::array<T, 16> upper{};  // the last is infinite
};

using Counts = std::array<std::uint64_t, 16>;

struct NonFinite {
  std::uint64_t nans = 0;
  std::uint64_t infinities = 0;
  std::uint64_t minus_infinities = 0;  // of the infinities

  std::uint64_t all() const noexcept { return nans + infinities; }
  void add(const NonFinite& other) noexcept {
    nans += other.nans;
    infinities += other.infinities;
    minus_infinities += other.minus_infinities;
  }
};

struct Kernels {
  const char* name;
  void (*sum_floats)(const float*, std::size_t, Sums&);
  void (*sum_doubles)(const double*, std::size_t, double scale, Sums&);
  void (*deviate_floats)(const float*, std::size_t, double mean, Deviations&);
  void (*deviate_doubles)(const double*, std::size_t, double scale, double mean, Deviations&);
  void (*bin_floats)(const float*, std::size_t, const Edges<float>&, Counts&);
  void (*bin_doubles)(const double*, std::size_t, const Edges<double>&, Counts&);
  // Move the finite values to the front, return their number, and add the others to the counts.
  std::size_t (*keep_finite_floats)(float*, std::size_t, NonFinite&);
  std::size_t (*keep_finite_doubles)(double*, std::size_t, NonFinite&);
  void (*widen_halves)(const std::uint16_t*, std::size_t, float*);
  void (*widen_bfloats)(const std::uint16_t*, std::size_t, float*);
};

}  // namespace sonde::snapshot
