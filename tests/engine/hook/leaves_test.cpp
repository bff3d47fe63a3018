#include "engine/hook/leaves.h"

#include <gtest/gtest.h>

#include "tests/engine/support/slots.h"

namespace sonde::hook {
namespace {

// Fetches and forwards in turn, with sequences from 1 on.
class LeavesTest : public ::testing::Test {
 protected:
  void add(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const record::Provisional record = records_.add(7);
      const std::uint64_t sequence = records_.size();
      leaves_.add({.record = record,
                   .sequence = sequence,
                   .kind = sequence % 2 == 0 ? Leaf::Kind::kForward : Leaf::Kind::kLoad});
    }
  }
  std::size_t settled() const { return records_.certain(); }

  testing::ProvisionalRecords records_;
  Leaves leaves_;
};

TEST_F(LeavesTest, OfMoreThanTheyHoldTheOldestAreSettled) {
  for (const std::size_t more : {Leaves::kMost, std::size_t{1}, Leaves::kMost, Leaves::kMost + 3}) {
    add(more);
    EXPECT_TRUE(leaves_.full());
    EXPECT_EQ(leaves_.size(), Leaves::kMost);
    const std::uint64_t newest = records_.size(), oldest = newest - Leaves::kMost + 1;
    EXPECT_EQ(settled(), oldest - 1);
    EXPECT_EQ(leaves_.front().sequence, oldest);
    EXPECT_EQ(leaves_.find(oldest), 0u);
    EXPECT_EQ(leaves_.find(newest), Leaves::kMost - 1);
    EXPECT_EQ(leaves_.find(oldest - 1), leaves_.size());
    EXPECT_EQ(leaves_.first(Leaf::Kind::kForward), oldest % 2 == 0 ? 0u : 1u);
  }
}

TEST_F(LeavesTest, WhatIsSplitOffIsCountedThere) {
  add(Leaves::kMost + 1);  // of which the first is gone
  Leaves rest = leaves_.split(1);
  EXPECT_EQ(leaves_.size(), 1u);
  EXPECT_TRUE(leaves_.has(Leaf::Kind::kForward));
  EXPECT_FALSE(leaves_.has(Leaf::Kind::kLoad));
  EXPECT_EQ(rest.size(), Leaves::kMost - 1);
  EXPECT_TRUE(rest.has(Leaf::Kind::kLoad));
  EXPECT_EQ(rest.front().sequence, 3u);
  EXPECT_TRUE(leaves_.split(0).has(Leaf::Kind::kForward));
  EXPECT_TRUE(leaves_.empty());
  EXPECT_EQ(leaves_.parent(), 0u);
  EXPECT_TRUE(leaves_.only_loads());  // none is none
  Leaves one = rest.split(rest.size() - 2).split(1);
  EXPECT_EQ(one.size(), 1u);
  EXPECT_TRUE(one.only_loads());
}

TEST_F(LeavesTest, AreEmptyWhenTheyAreSettled) {
  add(Leaves::kMost + 5);
  std::size_t told = 0;
  leaves_.settle([&](std::uint64_t parent) { told += parent == 7 ? 1 : 0; });
  EXPECT_EQ(told, Leaves::kMost);
  EXPECT_EQ(settled(), records_.size());
  EXPECT_TRUE(leaves_.empty());
  EXPECT_FALSE(leaves_.has(Leaf::Kind::kLoad));
  add(1);
  EXPECT_EQ(leaves_.size(), 1u);
  EXPECT_EQ(leaves_.front().sequence, records_.size());
}

}  // namespace
}  // namespace sonde::hook
