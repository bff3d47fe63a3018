#include "engine/base/swallowed.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace sonde::base {
namespace {

TEST(Swallowed, CountsByPlaceUntilReset) {
  reset_swallowed();
  note_swallowed("spool");
  note_swallowed("hooks.torch");
  note_swallowed("spool");
  const SwallowedErrors errors = swallowed_errors();
  EXPECT_EQ(errors.count, 3u);
  EXPECT_EQ(errors.by_place,
            (std::map<std::string, std::uint64_t>{{"hooks.torch", 1}, {"spool", 2}}));
  reset_swallowed();
  EXPECT_EQ(swallowed_errors().count, 0u);
  EXPECT_TRUE(swallowed_errors().by_place.empty());
}

TEST(Swallowed, PlacesAreBounded) {
  reset_swallowed();
  for (std::size_t i = 0; i < 2 * kMaxSwallowingPlaces; ++i)
    note_swallowed("place " + std::to_string(i));
  note_swallowed("place 0");
  const SwallowedErrors errors = swallowed_errors();
  EXPECT_EQ(errors.count, 2 * kMaxSwallowingPlaces + 1);
  EXPECT_EQ(errors.by_place.size(), kMaxSwallowingPlaces + 1);
  EXPECT_EQ(errors.by_place.at("other"), kMaxSwallowingPlaces);
  EXPECT_EQ(errors.by_place.at("place 0"), 2u);
  reset_swallowed();
}

TEST(Swallowed, AnyThread) {
  reset_swallowed();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 1000; ++i) note_swallowed("flush");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(swallowed_errors().by_place.at("flush"), 4000u);
  reset_swallowed();
}

}  // namespace
}  // namespace sonde::base
