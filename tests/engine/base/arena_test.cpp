#include "engine/base/arena.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace sonde::base {
namespace {

TEST(Arena, CopiesStayWhereTheyAre) {
  Arena arena;
  std::vector<std::string_view> views;
  views.reserve(10'000);
  for (int i = 0; i < 10'000; ++i) views.push_back(arena.copy(std::to_string(i)));
  for (int i = 0; i < 10'000; ++i) EXPECT_EQ(views[static_cast<std::size_t>(i)], std::to_string(i));
}

TEST(Arena, TextLargerThanABlock) {
  Arena arena;
  const std::string large(3u << 20, 'x');
  EXPECT_EQ(arena.copy(large), large);
  EXPECT_EQ(arena.copy("after"), "after");
}

TEST(Arena, EmptyTextNeedsNoRoom) {
  Arena arena;
  EXPECT_TRUE(arena.copy("").empty());
  EXPECT_NE(arena.allocate(0), nullptr);
}

TEST(Arena, IsUsableAfterClear) {
  Arena arena;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 1000; ++i) arena.copy(std::string(100, 'a'));
    arena.clear();
  }
  EXPECT_EQ(arena.copy("still here"), "still here");
}

TEST(Arena, MovedFromIsEmptyAndUsable) {
  Arena first;
  const std::string_view text = first.copy("kept");
  Arena second(std::move(first));
  EXPECT_EQ(text, "kept");
  EXPECT_EQ(first.copy("new"), "new");  // NOLINT(bugprone-use-after-move): that is the point
  EXPECT_EQ(second.copy("more"), "more");
  second = std::move(first);
  EXPECT_EQ(second.copy("again"), "again");
}

}  // namespace
}  // namespace sonde::base
