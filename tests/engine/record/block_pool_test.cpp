// A pool of its own over the journal's memory, in a child that records nothing.
#include "engine/record/block_pool.h"

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/record/addresses.h"
#include "engine/record/journal.h"
#include "tests/engine/support/child.h"

namespace sonde::record {
namespace {

using testing::in_child;

std::unique_ptr<BlockPool> make_pool(std::uint32_t usable) {
  Journal::instance();  // reserves the memory
  auto pool = std::make_unique<BlockPool>();
  pool->reset(usable);
  return pool;
}

std::vector<std::uint32_t> take_all(BlockPool& pool) {
  std::vector<std::uint32_t> taken;
  while (const std::uint32_t number = pool.take()) {
    block_at(number).type.store(BlockType::kRing);
    taken.push_back(number);
  }
  return taken;
}

TEST(BlockPool, GivesEachBlockOnceAndNeverNumberZero) {
  in_child([] {
    const auto pool = make_pool(64);
    const std::vector<std::uint32_t> taken = take_all(*pool);
    const std::set<std::uint32_t> different(taken.begin(), taken.end());
    EXPECT_EQ(taken.size(), 63u);
    EXPECT_EQ(different.size(), 63u);
    EXPECT_EQ(*different.begin(), 1u);
    EXPECT_EQ(*different.rbegin(), 63u);
  });
}

TEST(BlockPool, FreedBlocksComeBackBeforeFreshOnes) {
  in_child([] {
    const auto pool = make_pool(64);
    pool->take();
    const std::uint32_t second = pool->take();
    pool->take();
    pool->free(second);
    EXPECT_EQ(block_at(second).type.load(), BlockType::kFree);
    EXPECT_EQ(pool->take(), second);
    EXPECT_EQ(pool->take(), 4u);
  });
}

TEST(BlockPool, WithheldBlocksAreNotGivenAway) {
  in_child([] {
    const auto pool = make_pool(kMaxBlocks);
    for (int i = 0; i < 9; ++i) pool->take();
    EXPECT_FALSE(pool->withhold(5)) << "one of them is in use";
    EXPECT_TRUE(pool->withhold(12));
    EXPECT_EQ(pool->take(), 10u);
    EXPECT_EQ(pool->take(), 11u);
    EXPECT_EQ(pool->take(), 0u);
    pool->restore();
    EXPECT_EQ(pool->take(), 12u);
  });
}

TEST(BlockPool, WakesTheDrainThreadNearTheEndOfTheFile) {
  in_child([] {
    const auto pool = make_pool(kMaxBlocks);
    pool->set_file_end(kFirstBlocks);
    EXPECT_FALSE(pool->nears_file_end());
    const std::uint32_t seen = pool->wake().now();
    while (pool->fresh() + kEarlyBlocks < kFirstBlocks) pool->take();
    EXPECT_EQ(pool->wake().now(), seen);
    pool->take();
    EXPECT_NE(pool->wake().now(), seen) << "when a quarter is in use";
    while (pool->fresh() + kLowBlocks < kFirstBlocks) {
      EXPECT_FALSE(pool->nears_file_end());
      pool->take();
    }
    EXPECT_TRUE(pool->nears_file_end());
    pool->set_file_end(kMaxBlocks);
    EXPECT_FALSE(pool->nears_file_end()) << "there is nothing to enlarge";
  });
}

TEST(BlockPool, CountsWhatIsAvailableThroughASession) {
  in_child([] {
    const auto pool = make_pool(kIdleBlocks);
    EXPECT_EQ(pool->available(), static_cast<std::int32_t>(kIdleBlocks) - 1);
    pool->allow_all();
    EXPECT_EQ(pool->available(), static_cast<std::int32_t>(kMaxBlocks) - 1);
    const std::vector<std::uint32_t> taken = take_all(*pool);
    EXPECT_EQ(taken.size(), kMaxBlocks - 1u);
    for (const std::uint32_t number : taken)
      if (number != 3) pool->free(number);
    pool->trim();
    pool->compact();
    EXPECT_EQ(pool->fresh(), 4u) << "behind the last used one";
    EXPECT_EQ(pool->available(), static_cast<std::int32_t>(kMaxBlocks) - 2);
    pool->allow_idle_only();
    EXPECT_EQ(pool->usable(), 4u + kIdleBlocks);
    EXPECT_EQ(take_all(*pool).size(), kIdleBlocks + 2u);
  });
}

TEST(BlockPool, ThreadsNeverGetTheSameBlock) {
  if (!testing::kChildHasThreads) GTEST_SKIP() << "a sanitizer allows a child no threads";
  in_child([] {
    const auto pool = make_pool(8);  // few, so that they go round all the time
    std::vector<std::atomic<int>> holders(8);
    std::atomic<int> twice{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20'000; ++i) {
          const std::uint32_t number = pool->take();
          if (number == 0) continue;
          if (holders[number].fetch_add(1) != 0) twice.fetch_add(1);
          holders[number].fetch_sub(1);
          pool->free(number);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(twice.load(), 0);
    EXPECT_EQ(pool->available(), 7);
  });
}

}  // namespace
}  // namespace sonde::record
