#include "engine/report/times.h"

#include <time.h>

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "engine/line/line.h"

namespace sonde::report {

std::string point_in_time(std::int64_t wall_ns) {
  if (wall_ns <= 0) return "unknown";
  const auto seconds = static_cast<time_t>(wall_ns / 1'000'000'000);
  tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03} UTC", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     wall_ns / 1'000'000 % 1000);
}

std::string long_duration(std::int64_t ns) {
  const std::int64_t seconds = ns / 1'000'000'000;
  if (seconds >= 86400) return fmt::format("{}d {:02}h", seconds / 86400, seconds / 3600 % 24);
  if (seconds >= 3600) return fmt::format("{}h {:02}m", seconds / 3600, seconds / 60 % 60);
  if (seconds >= 60) return fmt::format("{}m {:02}s", seconds / 60, seconds % 60);
  std::string out;
  line::append_duration(out, ns);
  return out;
}

}  // namespace sonde::report
