#include "engine/probe/device_queue.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/base/clock.h"

namespace sonde::probe {
namespace {

class DeviceQueue : public testing::Test {
 protected:
  DeviceQueue() { queue_watch(); }
  ~DeviceQueue() override {
    queue_abandon(~std::uint64_t{0});
    queue_unwatch();
  }
  static std::int64_t between(std::uint32_t start, std::uint32_t end) {
    std::int64_t ns = -1;
    EXPECT_EQ(queue_elapsed(start, end, ns), GpuTime::kKnown);
    return ns;
  }
  static GpuTime state(std::uint32_t start, std::uint32_t end) {
    std::int64_t ns = 0;
    return queue_elapsed(start, end, ns);
  }
  // Far enough in the future that the host's clock does not get there.
  const std::uint64_t later_ = base::monotonic_ns() + 1'000'000'000'000;
};

TEST_F(DeviceQueue, NumbersAreNoCudaEvents) {
  const std::uint32_t mark = queue_mark();
  EXPECT_TRUE(is_queue_mark(mark));
  EXPECT_FALSE(is_queue_mark(65535));
  queue_release(mark);
}

TEST_F(DeviceQueue, WithoutAWatcherThereAreNoMarks) {
  queue_unwatch();
  EXPECT_EQ(queue_mark(), 0u);
  queue_watch();
}

TEST_F(DeviceQueue, WorkThatIsWaitedForElsewhereEndsWhereItIsDone) {
  const std::uint32_t begin = queue_mark();
  const std::uint64_t first = queue_submit();
  const std::uint32_t middle = queue_mark();
  const std::uint64_t second = queue_submit();
  const std::uint32_t end = queue_mark();
  EXPECT_EQ(state(begin, middle), GpuTime::kPending);
  queue_done(first, later_);
  EXPECT_EQ(state(middle, end), GpuTime::kPending);
  queue_done(second, later_ + 500);
  EXPECT_EQ(between(middle, end), 500);
  EXPECT_GT(between(begin, middle), 0);
}

// The error to avoid: what follows a batch is charged with the time of waiting for the batch.
TEST_F(DeviceQueue, WhatComesAfterIsNotChargedWithWhatCameBefore) {
  const std::uint64_t batch = queue_submit();
  const std::uint32_t begin = queue_mark();
  queue_done(batch, later_);
  EXPECT_EQ(between(begin, begin), 0);
  const std::uint32_t end = queue_mark();  // nothing under way, and still before `later_`
  EXPECT_EQ(between(begin, end), 0);
}

TEST_F(DeviceQueue, ThreadsThatTellInTheWrongOrder) {
  const std::uint64_t first = queue_submit();
  const std::uint32_t begin = queue_mark();
  const std::uint64_t second = queue_submit();
  const std::uint32_t end = queue_mark();
  queue_done(second, later_ + 100);
  queue_done(first, later_ + 200);
  EXPECT_EQ(between(begin, end), 0);
}

TEST_F(DeviceQueue, WorkThatNobodyReportsIsUnknown) {
  const std::uint32_t begin = queue_mark();
  const std::uint64_t lost = queue_submit();
  const std::uint32_t end = queue_mark();
  queue_abandon(lost);
  EXPECT_EQ(state(begin, end), GpuTime::kUnknown);
  EXPECT_EQ(state(begin, 0), GpuTime::kUnknown);
  const std::uint32_t next = queue_mark();
  const std::uint32_t last = queue_mark();
  EXPECT_EQ(state(next, last), GpuTime::kKnown);
}

TEST_F(DeviceQueue, ReleasedMarksAreUsedAgain) {
  const std::uint64_t piece = queue_submit();
  const std::uint32_t mark = queue_mark();  // waits
  queue_release(mark);
  queue_release(mark);
  EXPECT_EQ(queue_mark(), mark);
  queue_done(piece, later_);
  EXPECT_GE(between(mark, mark), 0);
}

TEST_F(DeviceQueue, ManyThreads) {
  const auto work = [] {
    for (int i = 0; i < 1000; ++i) {
      const std::uint32_t begin = queue_mark();
      const std::uint64_t piece = queue_submit();
      const std::uint32_t end = queue_mark();
      queue_done(piece, base::monotonic_ns());
      EXPECT_EQ(state(begin, end), GpuTime::kKnown);
      queue_release(begin);
      queue_release(end);
    }
  };
  std::thread other(work);
  work();
  other.join();
}

}  // namespace
}  // namespace sonde::probe
