#include "engine/snapshot/pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace sonde::snapshot {
namespace {

// How many threads come when all are waited for, at most a second.
std::size_t threads_that_come(unsigned helpers) {
  std::mutex mutex;
  std::set<std::thread::id> came;
  const auto enough = [&] {
    const std::lock_guard lock(mutex);
    return came.size() == helpers + 1;
  };
  run_together(helpers, [&] {
    {
      const std::lock_guard lock(mutex);
      came.insert(std::this_thread::get_id());
    }
    for (int i = 0; i < 1000 && !enough(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  return came.size();
}

TEST(Pool, TheCallerAndItsHelpersWork) {
  EXPECT_EQ(threads_that_come(0), 1u);
  EXPECT_EQ(threads_that_come(1), 2u);
  EXPECT_EQ(threads_that_come(3), 4u);
  EXPECT_EQ(threads_that_come(1), 2u);
}

TEST(Pool, ReturnsWhenAllAreDone) {
  for (int round = 0; round < 2000; ++round) {
    std::atomic<int> inside = 0;
    run_together(2, [&] {
      ++inside;
      --inside;
    });
    ASSERT_EQ(inside, 0);
  }
}

TEST(Pool, CallersAtTheSameTimeDoNotWaitForEachOther) {
  std::vector<std::thread> callers;
  std::atomic<int> calls = 0;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        const int before = calls;
        run_together(2, [&] { ++calls; });
        EXPECT_GT(calls, before);
      }
    });
  for (std::thread& caller : callers) caller.join();
}

TEST(Pool, AChildHasHelpersOfItsOwn) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer allows a forked child no threads";
#endif
  EXPECT_EQ(threads_that_come(2), 3u);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(threads_that_come(2) == 3 ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace sonde::snapshot
