// Statistics of one tensor, over its finite values.
#pragma once

#include <array>
#include <cstdint>

namespace sonde::snapshot {

struct Statistics {
  double mean = 0, std = 0, min = 0, max = 0, norm = 0;
  std::uint64_t count = 0;  // finite values
  std::uint64_t nan_count = 0, inf_count = 0, zero_count = 0;
  std::array<std::uint64_t, 16> counts{};

  double edge(int i) const {
    if (min == max) return min + i / 16.0;
    if (i == 16) return max;
    const double width = max - min;
    if (width > 1.7976931348623157e308) return min * (1 - i / 16.0) + max * (i / 16.0);
    return min + width * (i / 16.0);
  }
};

}  // namespace sonde::snapshot
