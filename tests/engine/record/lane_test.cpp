#include "engine/record/lane.h"

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/support/child.h"
#include "tests/engine/support/ring_tap.h"

namespace sonde::record {
namespace {

using testing::find_span;
using testing::names_of;
using testing::RingTap;
using Names = std::vector<std::string>;

class LaneOf : public ::testing::Test {
 protected:
  void SetUp() override { open_gate(); }
};

TEST_F(LaneOf, ThousandsOfShortThreadsShareAFewLanesAndLoseNothing) {
  testing::in_child([] {
    constexpr int kThreads = 5000;
    RingTap tap;
    std::vector<std::uint64_t> idents;
    for (int i = 0; i < kThreads; ++i) {
      std::thread([&, i] {
        idents.push_back(static_cast<std::uint64_t>(pthread_self()));
        testing::close(testing::open("short", {.index = i, .flags = kHasIndex}));
      }).join();
    }
    const model::Batch batch = tap.take();
    ASSERT_EQ(batch.spans.size(), std::size_t{kThreads});
    std::unordered_set<base::Id, base::IdHash> ids;
    for (int i = 0; i < kThreads; ++i) {
      const model::Span& span = batch.spans[static_cast<std::size_t>(i)];
      ids.insert(span.id);
      ASSERT_EQ(span.index, i);
      ASSERT_EQ(span.thread_id, idents[static_cast<std::size_t>(i)])
          << "the ring says whose records follow";
    }
    EXPECT_EQ(ids.size(), std::size_t{kThreads}) << "ids go on where the lane's last owner stopped";
    EXPECT_LE(Journal::instance().lane_count(), 4u);
    EXPECT_EQ(total_losses().spans, 0u);
  });
}

TEST_F(LaneOf, ManyThreadsAtOnceHaveALaneEach) {
  testing::in_child([] {
    constexpr int kThreads = 300, kSpans = 50;
    RingTap tap;
    std::vector<std::thread> threads;
    std::atomic<int> ready{0};
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        const ScopeHandle outer = testing::open("outer", {.index = i, .flags = kHasIndex});
        ready.fetch_add(1);
        while (ready.load() < kThreads) std::this_thread::yield();
        for (int k = 0; k < kSpans; ++k)
          testing::close(testing::open("inner", {.index = i, .flags = kHasIndex}));
        testing::close(outer);
      });
    }
    for (std::thread& thread : threads) thread.join();
    const model::Batch batch = tap.take();
    EXPECT_EQ(batch.spans.size(), std::size_t{kThreads} * (kSpans + 1));
    std::unordered_map<base::Id, std::int64_t, base::IdHash> outer_of;
    for (const model::Span& span : batch.spans) {
      if (span.name == "outer") outer_of[span.id] = span.index;
    }
    ASSERT_EQ(outer_of.size(), std::size_t{kThreads});
    for (const model::Span& span : batch.spans) {
      if (span.name == "inner") {
        ASSERT_EQ(outer_of.at(span.parent_id), span.index);
      }
    }
    EXPECT_GE(Journal::instance().lane_count(), 300u);
  });
}

TEST_F(LaneOf, FullRingDropsTheNewestCountsAndNeverBlocks) {
  testing::in_child([] {
    RingTap tap;
    const std::uint64_t start = base::monotonic_ns();
    constexpr std::uint64_t kAttempts = 600'000;  // more than the idle cap of 512 blocks holds
    for (std::uint64_t i = 0; i < kAttempts; ++i) {
      testing::close(
          testing::open("fill", {.index = static_cast<std::int64_t>(i), .flags = kHasIndex}));
    }
    const ScopeHandle open = testing::open("still opens");
    EXPECT_TRUE(is_open(open));
    EXPECT_EQ(testing::mark("dropped", 1), 0u);
    EXPECT_TRUE(testing::close(open));
    EXPECT_LT(base::monotonic_ns() - start, 10'000'000'000u);
    model::Batch batch;
    std::vector<std::uint32_t> finished;
    tap.read(batch, &finished);
    const Losses losses = total_losses();
    EXPECT_EQ(losses.marks, 1u);
    EXPECT_EQ(batch.spans.size() + losses.spans, kAttempts + 1)
        << "each is either there or counted";
    EXPECT_GT(batch.spans.size(), 250'000u);
    for (std::size_t i = 0; i < batch.spans.size(); ++i)
      ASSERT_EQ(batch.spans[i].index, static_cast<std::int64_t>(i));

    // Room again: recording goes on as if nothing had been.
    for (const std::uint32_t block : finished) Journal::instance().free_block(block);
    testing::close(testing::open("after"));
    EXPECT_EQ(names_of(tap.take().spans), (Names{"after"}));
    EXPECT_EQ(tap.damaged(), 0u);
  });
}

TEST_F(LaneOf, LowRoomWakesTheDrainThread) {
  testing::in_child([] {
    const std::uint32_t seen = Journal::instance().wake().now();
    for (std::uint64_t i = 0; i < (kIdleBlocks - 8) * std::uint64_t{kSlotsPerBlock}; ++i)
      testing::mark("fill", 1);
    EXPECT_NE(Journal::instance().wake().now(), seen);
  });
}

// Blocks go round between recording threads and the drain thread: nothing is lost, doubled or
// mixed up.
TEST_F(LaneOf, RecordsSurviveBlocksBeingRecycledUnderLoad) {
  testing::in_child([] {
    constexpr int kThreads = 3;
    constexpr std::int64_t kSpans = 100'000;
    RingTap tap;
    std::atomic<int> running{kThreads};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&running, t] {
        const std::string attrs = R"("thread":)" + std::to_string(t);
        for (std::int64_t i = 0; i < kSpans; ++i) {
          ScopeStart start{.index = i, .flags = kHasIndex};
          if (i % 7 == 0) start.attrs = attrs;
          testing::close(testing::open("load", start));
        }
        running.fetch_sub(1);
      });
    }
    std::unordered_map<std::uint64_t, std::int64_t> next;
    std::size_t seen = 0;
    for (bool last = false; !last;) {
      last = running.load() == 0;
      model::Batch batch;
      std::vector<std::uint32_t> finished;
      tap.read(batch, &finished);
      for (const model::Span& span : batch.spans) {
        ASSERT_EQ(span.name, "load");
        const std::int64_t expected = next[span.thread_id]++;
        if (total_losses().spans == 0) {
          ASSERT_EQ(span.index, expected);
        }
        ASSERT_EQ(!span.attrs.empty(), span.index % 7 == 0);
      }
      seen += batch.spans.size();
      for (const std::uint32_t block : finished) Journal::instance().free_block(block);
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(seen + total_losses().spans, std::size_t{kThreads} * kSpans);
    EXPECT_EQ(tap.damaged(), 0u);
    EXPECT_EQ(next.size(), std::size_t{kThreads});
  });
}

TEST_F(LaneOf, TaskHasAStackOfItsOwn) {
  RingTap tap;
  ThreadState* thread = this_thread();
  const ScopeHandle outer = testing::open("outer");
  Lane* first = take_task_lane(outer.sequence);
  Lane* second = take_task_lane(outer.sequence);
  const std::uint32_t name = intern("in task");
  const ScopeHandle a = open_scope(*thread, *first, {.name = name, .index = 1, .flags = kHasIndex});
  const ScopeHandle b =
      open_scope(*thread, *second, {.name = name, .index = 2, .flags = kHasIndex});
  write_mark(*thread, *first, {.name = intern("m"), .real = 1});
  testing::close(a);  // tasks interleave: neither closes the other's
  EXPECT_TRUE(is_open(b));
  testing::close(b);
  testing::close(outer);
  give_task_lane(first, generation());
  give_task_lane(second, generation());
  const model::Batch batch = tap.take();
  ASSERT_EQ(batch.spans.size(), 3u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(batch.spans[i].index, static_cast<std::int64_t>(i + 1));
    EXPECT_EQ(batch.spans[i].parent_id, tap.id_of(outer.sequence));
    EXPECT_EQ(batch.spans[i].attrs, "");
  }
  EXPECT_EQ(batch.marks.at(0).span_id, tap.id_of(a.sequence));
}

TEST_F(LaneOf, TaskThatMovesToAnotherThreadKeepsItsStack) {
  RingTap tap;
  Lane* task = take_task_lane(0);
  const ScopeHandle outer = open_scope(*this_thread(), *task, {.name = intern("outer")});
  std::thread([&] {
    ThreadState* other = this_thread();
    const ScopeHandle inner = open_scope(*other, *task, {.name = intern("inner")});
    EXPECT_TRUE(testing::close(inner));
    EXPECT_TRUE(testing::close(outer)) << "a task's stack belongs to the thread that runs the task";
  }).join();
  EXPECT_EQ(task->depth.load(), 0u);
  give_task_lane(task, generation());
  const model::Batch batch = tap.take();
  EXPECT_EQ(names_of(batch.spans), (Names{"inner", "outer"}));
  EXPECT_EQ(batch.spans[0].parent_id, tap.id_of(outer.sequence));
}

TEST_F(LaneOf, AbandonedTaskClosesItsScopes) {
  RingTap tap;
  Lane* task = take_task_lane(0);
  open_scope(*this_thread(), *task, {.name = intern("outer")});
  open_scope(*this_thread(), *task, {.name = intern("inner")});
  give_task_lane(task, generation());
  const model::Batch batch = tap.take();
  EXPECT_EQ(names_of(batch.spans), (Names{"inner", "outer"}));
  EXPECT_EQ(batch.spans[0].attrs, R"("sonde.closed_by":"garbage_collection")");
}

TEST_F(LaneOf, TaskAbandonedOnAThreadThatNeverRecordedLosesNothing) {
  RingTap tap;
  Lane* task = take_task_lane(0);
  open_scope(*this_thread(), *task, {.name = intern("left")});
  const Losses before = total_losses();
  std::thread([&] { give_task_lane(task, generation()); }).join();
  EXPECT_EQ(names_of(tap.take().spans), (Names{"left"}));
  EXPECT_EQ(total_losses().spans, before.spans);
}

TEST_F(LaneOf, TaskOfTheParentProcessIsNotGivenBackInTheChild) {
  Lane* task = take_task_lane(0);
  const std::uint32_t made_in = generation();
  testing::in_child([&] {
    const std::uint32_t lanes = Journal::instance().lane_count();
    give_task_lane(task, made_in);
    EXPECT_EQ(Journal::instance().lane_count(), lanes);
    Lane* own = take_task_lane(0);
    EXPECT_NE(own, nullptr);
    EXPECT_EQ(own->depth.load(), 0u);
  });
  give_task_lane(task, made_in);
}

TEST_F(LaneOf, ReusedLaneStartsEmpty) {
  Lane* first = take_task_lane(5);
  open_scope(*this_thread(), *first, {.name = intern("x"), .attrs = R"("a":1)"});
  give_task_lane(first, generation());
  Lane* second = take_task_lane(0);
  EXPECT_EQ(second, first);
  EXPECT_EQ(second->depth.load(), 0u);
  EXPECT_EQ(second->arena_used, 0u);
  EXPECT_EQ(second->inherited_parent, 0u);
  EXPECT_EQ(current_parent(*second), 0u);
  give_task_lane(second, generation());
}

TEST_F(LaneOf, NoLaneLeftIsCountedNotFatal) {
  testing::in_child([] {
    std::vector<Lane*> lanes;
    while (Lane* lane = take_task_lane(0)) lanes.push_back(lane);
    EXPECT_GT(lanes.size(), 1000u);
    const Losses before = total_losses();
    std::thread([] { EXPECT_FALSE(testing::open("homeless")); }).join();
    EXPECT_EQ(total_losses().spans, before.spans + 1);
    give_task_lane(lanes.back(), generation());
    std::thread([] {
      const ScopeHandle handle = testing::open("housed");
      EXPECT_TRUE(handle);
    }).join();
  });
}

}  // namespace
}  // namespace sonde::record
