#include "engine/run/recent_ids.h"

#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

namespace sonde::run {
namespace {

constexpr std::size_t kKept = 10;

// How many of the ids from `first` on were not known.
int add(RecentIds& ids, std::uint64_t first, std::uint64_t count) {
  int fresh = 0;
  for (std::uint64_t i = 0; i < count; ++i) fresh += ids.add({1, first + i}) ? 1 : 0;
  return fresh;
}

TEST(RecentIds, AnIdIsKnownFromItsFirstSightOn) {
  RecentIds ids(kKept);
  EXPECT_EQ(add(ids, 0, 5), 5);
  EXPECT_EQ(add(ids, 0, 6), 1);
  ids.end_look();
  EXPECT_EQ(add(ids, 0, 7), 1);
}

// Records that are in no spool yet come up at every look, however many there are.
TEST(RecentIds, WhatEveryLookMeetsIsNeverForgotten) {
  RecentIds ids(kKept);
  EXPECT_EQ(add(ids, 0, 100), 100);
  for (int look = 0; look < 5; ++look) {
    ids.end_look();
    EXPECT_EQ(add(ids, 0, 100), 0);
  }
  // Moved to the spool: now they come up once more, from there.
  ids.end_look();
  EXPECT_EQ(add(ids, 0, 100), 0);
}

TEST(RecentIds, WhatALookDidNotMeetIsForgottenFromTheOldestOn) {
  RecentIds ids(kKept);
  EXPECT_EQ(add(ids, 0, 100), 100);
  ids.end_look();
  EXPECT_EQ(add(ids, 0, 4), 0);
  ids.end_look();
  EXPECT_EQ(add(ids, 0, 4), 0) << "met";
  EXPECT_EQ(add(ids, 94, 6), 0) << "the newest";
  EXPECT_EQ(add(ids, 4, 90), 90);
}

}  // namespace
}  // namespace sonde::run
