// Points in time and long durations for people.
#pragma once

#include <cstdint>
#include <string>

namespace sonde::report {

// 2026-11-15 08:00:01.250 UTC; "unknown" for 0.
std::string point_in_time(std::int64_t wall_ns);

// 142us, 1.5ms, 2.50s as everywhere; from a minute on 3m 12s, 2h 05m, 4d 03h.
std::string long_duration(std::int64_t ns);

}  // namespace sonde::report
