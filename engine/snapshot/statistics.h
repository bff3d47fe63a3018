// What is measured of a tensor. Everything but the counts of other values is taken over the finite
// values, as float64; without any of those (an empty tensor, nothing but NaN) it is all zero.
#pragma once

#include <array>
#include <cstdint>

namespace sonde::snapshot {

struct Statistics {
  static constexpr int kBins = 16;

  double mean = 0;
  double std = 0;  // of the population: divided by the count
  double min = 0;
  double max = 0;
  double norm = 0;          // the square root of the sum of squares
  std::uint64_t count = 0;  // finite values
  std::uint64_t nan_count = 0;
  std::uint64_t inf_count = 0;        // of either sign
  std::uint64_t minus_inf_count = 0;  // of those, the negative ones
  std::uint64_t zero_count = 0;       // of either sign
  // A value lies in the bin numbered by how many of the edges 1 to 15 it reaches, the largest in
  // the last. Where all values are equal the bins span [min, min + 1] and the first holds them all.
  std::array<std::uint64_t, kBins> counts{};

  std::uint64_t non_finite_count() const noexcept { return nan_count + inf_count; }
  double edge(int i) const noexcept;  // 0 to 16
};

}  // namespace sonde::snapshot
