#include "engine/report/times.h"

#include <gtest/gtest.h>

namespace sonde::report {
namespace {

TEST(Times, PointsInTime) {
  EXPECT_EQ(point_in_time(1'794'728'575'223'058'765), "2026-11-15 07:42:55.223 UTC");
  EXPECT_EQ(point_in_time(0), "unknown");
  EXPECT_EQ(point_in_time(-5), "unknown");
}

TEST(Times, LongDurations) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  EXPECT_EQ(long_duration(142'000), "142us");
  EXPECT_EQ(long_duration(59 * kSecond), "59.00s");
  EXPECT_EQ(long_duration(192 * kSecond), "3m 12s");
  EXPECT_EQ(long_duration(7500 * kSecond), "2h 05m");
  EXPECT_EQ(long_duration(100 * 3600 * kSecond), "4d 04h");
}

}  // namespace
}  // namespace sonde::report
