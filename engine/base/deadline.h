// Turns a time to wait into the time at which waiting ends.
#pragma once

#include <cstdint>

#include "engine/base/clock.h"

namespace sonde::base {

// A deadline is a time by monotonic_ns(). 0: do not wait.
inline constexpr std::uint64_t kNoDeadline = ~std::uint64_t{0};

inline std::uint64_t deadline_after(std::uint64_t patience_ns) noexcept {
  return patience_ns == 0 ? 0 : monotonic_ns() + patience_ns;
}

}  // namespace sonde::base
