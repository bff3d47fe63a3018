// How spool v1 names a float that JSON has no number for: the number itself is null, and a key
// beside it holds "nan", "inf" or "-inf".
#pragma once

#include <cmath>
#include <limits>
#include <string_view>

namespace sonde::base {

// "" for a finite number.
inline std::string_view non_finite_name(double value) noexcept {
  if (std::isfinite(value)) return {};
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

// The number of that name; NaN for any other name, which a newer writer may have.
inline double non_finite_named(std::string_view name) noexcept {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (name == "inf") return kInfinity;
  return name == "-inf" ? -kInfinity : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace sonde::base
