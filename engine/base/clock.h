// Time. Recording reads only the monotonic clock; wall-clock values are computed from one anchor
// per session, so a system clock that is stepped can neither reorder nor stretch what was recorded.
#pragma once

#include <time.h>

#include <cstdint>

namespace sonde::base {

inline std::uint64_t read_clock_ns(clockid_t clock) noexcept {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(t.tv_nsec);
}

inline std::uint64_t monotonic_ns() noexcept { return read_clock_ns(CLOCK_MONOTONIC); }

// For anchors and file ages only; never on the hot path.
inline std::int64_t wall_clock_ns() noexcept {
  return static_cast<std::int64_t>(read_clock_ns(CLOCK_REALTIME));
}

// One instant read on both clocks.
struct ClockAnchor {
  std::uint64_t monotonic_ns = 0;
  std::int64_t wall_ns = 0;
};

inline ClockAnchor read_anchor() noexcept { return {monotonic_ns(), wall_clock_ns()}; }

// The one conversion from recorded time to wall-clock nanoseconds.
inline std::int64_t to_wall_ns(const ClockAnchor& anchor, std::uint64_t monotonic) noexcept {
  // Unsigned, so that overflow wraps: a damaged journal may hold any number.
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(anchor.wall_ns) +
                                   (monotonic - anchor.monotonic_ns));
}

}  // namespace sonde::base
