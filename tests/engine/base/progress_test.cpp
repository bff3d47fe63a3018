#include "engine/base/progress.h"

#include <unistd.h>

#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

#include "engine/base/clock.h"

namespace sonde::base {
namespace {

TEST(Progress, AWakeUpForAnotherTaskDoesNotMakeTheWaitLonger) {
  Progress progress;
  const std::uint64_t mine = progress.add();
  std::thread other([&] {
    ::usleep(400'000);
    progress.finish(mine - 1);
  });
  const std::uint64_t start = monotonic_ns();
  EXPECT_FALSE(progress.await(mine, start + 500'000'000));
  EXPECT_LT(monotonic_ns() - start, 850'000'000u);
  EXPECT_TRUE(progress.pending());
  other.join();
}

TEST(Progress, AThreadThatIsStuckIsWaitedForOnce) {
  constexpr std::uint64_t kLong = 60'000'000'000;
  Progress progress;
  const std::uint64_t first = progress.add(), second = progress.add();
  EXPECT_FALSE(progress.await(first, monotonic_ns() + 1'000'000));
  const std::uint64_t start = monotonic_ns();
  EXPECT_FALSE(progress.await_all(start + kLong));
  EXPECT_LT(monotonic_ns() - start, kLong);
  progress.finish(first);  // it has moved, so it is waited for again
  std::thread other([&] {
    ::usleep(50'000);
    progress.finish(second);
  });
  EXPECT_TRUE(progress.await_all(monotonic_ns() + kLong));
  other.join();
}

TEST(Progress, OnceItIsOverNoThreadWaits) {
  Progress progress;
  const std::uint64_t mine = progress.add();
  progress.finish_all();
  progress.finish(mine);  // late
  EXPECT_TRUE(progress.await(mine, 0));
  EXPECT_FALSE(progress.pending());
}

}  // namespace
}  // namespace sonde::base
