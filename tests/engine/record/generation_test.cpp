// One number says which session and which process a thing belongs to.
#include "engine/record/generation.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/record/ends.h"
#include "tests/engine/support/child.h"
#include "tests/engine/support/ring_tap.h"

namespace sonde::record {
namespace {

using testing::in_child;
using testing::names_of;
using testing::RingTap;
using Names = std::vector<std::string>;

// The life of a session as far as this folder sees it.
void begin_session(std::int32_t rank = 0) {
  close_gate();
  Journal::instance().begin_session({.rank = rank});
  open_root(intern("session"), {});
  open_gate();
}

void end_session() {
  ThreadState* thread = this_thread();
  close_gate();
  close_everything(*thread);
  Journal::instance().leave_session();
  Journal::instance().end_session();
  open_gate();
}

void start_over() {
  close_gate();
  Journal::instance().start_over();
  open_gate();
}

TEST(Generation, GoesUpWithEverySessionForkAndFreshStart) {
  in_child([] {
    open_gate();
    const Generation first = generation();
    begin_session();
    const Generation session = generation();
    EXPECT_GT(session, first);
    EXPECT_FALSE(is_void(first)) << "what is open stays open";
    start_over();
    const Generation again = generation();
    EXPECT_GT(again, session);
    EXPECT_TRUE(is_void(session));
    end_session();
    EXPECT_GT(generation(), again);
    EXPECT_FALSE(is_void(again));
    const Generation parent = generation();
    in_child([=] {
      EXPECT_GT(generation(), parent);
      EXPECT_TRUE(is_void(parent));
    });
    EXPECT_EQ(generation(), parent);
  });
}

TEST(Generation, ClosingAndOpeningTheGateIsNoneOfThem) {
  open_gate();
  const Generation before = generation();
  close_gate();
  EXPECT_EQ(generation(), before) << "it is there while recording is off";
  open_gate();
  EXPECT_EQ(generation(), before);
}

TEST(Generation, ThreadKeepsItsLaneFromSessionToSession) {
  in_child([] {
    open_gate();
    const Lane* lane = this_thread()->lane;
    const Generation before = this_thread()->generation;
    begin_session();
    EXPECT_EQ(this_thread()->lane, lane);
    EXPECT_EQ(this_thread()->generation, generation());
    EXPECT_GT(this_thread()->generation, before);
    EXPECT_EQ(Journal::instance().lane_count(), 1u);
  });
}

TEST(Generation, ScopeIsClosedAcrossTheBeginningOfASession) {
  in_child([] {
    open_gate();
    RingTap tap;
    const ScopeHandle outer = testing::open("outer");
    const ScopeHandle inner = testing::open("inner");
    begin_session();
    EXPECT_TRUE(is_open(outer));
    EXPECT_TRUE(is_innermost(inner));
    EXPECT_TRUE(testing::close(inner));
    EXPECT_FALSE(is_open(inner));
    EXPECT_FALSE(testing::close(inner));
    relabel_scope(outer, intern("renamed"), kNoIndex);
    EXPECT_TRUE(testing::close(outer));
    EXPECT_EQ(names_of(tap.take().spans), (Names{"inner", "renamed"}));
  });
}

TEST(Generation, CloseIsRecordedWhileTheGateIsClosed) {
  in_child([] {
    open_gate();
    RingTap tap;
    const ScopeHandle before = testing::open("before");
    begin_session();
    const ScopeHandle inside = testing::open("inside");
    close_gate();
    EXPECT_EQ(this_thread(), nullptr);
    EXPECT_FALSE(is_open(inside));
    EXPECT_TRUE(close_scope(*closing_thread(inside.generation), inside, {}, base::monotonic_ns()));
    EXPECT_TRUE(close_scope(*closing_thread(before.generation), before, {}, base::monotonic_ns()));
    EXPECT_EQ(names_of(tap.take().spans), (Names{"inside", "before"}));
  });
}

TEST(Generation, HandlesAreVoidAfterAFreshStart) {
  in_child([] {
    open_gate();
    begin_session();
    Journal::instance().remember_session();
    const ScopeHandle scope = testing::open("gone");
    std::uint64_t highest = scope.sequence;
    start_over();
    EXPECT_FALSE(is_open(scope));
    EXPECT_FALSE(testing::close(scope));
    const ScopeHandle fresh = testing::open("fresh");
    EXPECT_GT(fresh.sequence, highest) << "no id comes twice";
    EXPECT_TRUE(testing::close(fresh));
  });
}

// The lanes start over on the drain thread, so other threads keep theirs, which are void.
TEST(Generation, AThreadWithAVoidLaneClosesATasksScopesOnANewOne) {
  in_child([] {
    open_gate();
    begin_session();
    for (int i = 0; i < 4; ++i) take_task_lane(0);  // the void lane is beyond the new ones
    std::atomic<int> turn{0};
    Lane* task = nullptr;
    Generation made_in = 0;
    std::thread collector([&] {
      testing::close(testing::open("has a lane"));
      turn.store(1);
      while (turn.load() != 2) std::this_thread::yield();
      give_task_lane(task, made_in);
    });
    while (turn.load() != 1) std::this_thread::yield();
    start_over();
    RingTap tap;
    made_in = generation();
    task = take_task_lane(0);
    open_scope(*this_thread(), *task, {.name = intern("in a task")});
    turn.store(2);
    collector.join();
    EXPECT_EQ(names_of(tap.take().spans), (Names{"in a task"}));
    EXPECT_EQ(tap.damaged(), 0u);
  });
}

TEST(Generation, AskingForARecordingThreadMakesNone) {
  in_child([] {
    open_gate();
    EXPECT_EQ(this_thread_if_it_records(), nullptr);
    EXPECT_EQ(Journal::instance().lane_count(), 0u);
    ThreadState* thread = this_thread();
    EXPECT_EQ(this_thread_if_it_records(), thread);
    begin_session();
    EXPECT_EQ(this_thread_if_it_records(), thread) << "it has recorded, before the session";
    EXPECT_EQ(thread->generation, generation());
    std::thread([] { EXPECT_EQ(this_thread_if_it_records(), nullptr); }).join();
    close_gate();
    EXPECT_EQ(this_thread_if_it_records(), nullptr);
  });
}

TEST(Provenance, IsThatOfTheSessionThatWritesTheRecords) {
  in_child([] {
    open_gate();
    const Generation before = testing::open("before").generation;
    begin_session(3);
    const Generation inside = generation();
    const Provenance session = provenance(inside);
    EXPECT_EQ(session.rank, 3);
    EXPECT_EQ(session.pid, getpid());
    EXPECT_EQ(provenance(before).rank, 3) << "what was open before is written by this session";
    EXPECT_EQ(provenance(before).key, session.key);
    EXPECT_FALSE(is_past(before));
    end_session();
    EXPECT_TRUE(is_past(before));
    EXPECT_TRUE(is_past(inside));
    EXPECT_FALSE(is_past(generation()));
    begin_session(4);
    EXPECT_EQ(provenance(inside).rank, 3) << "also later";
    EXPECT_EQ(provenance(inside).key, session.key);
    EXPECT_NE(provenance(generation()).key, session.key);
    end_session();
    EXPECT_EQ(provenance(inside).rank, 3);
  });
}

TEST(Provenance, StaysTheParentsInAForkedChild) {
  in_child([] {
    open_gate();
    begin_session(5);
    const Generation parents = generation();
    const Provenance parent = provenance(parents);
    in_child([&] {
      EXPECT_TRUE(is_past(parents));
      EXPECT_EQ(provenance(parents).pid, getppid());
      EXPECT_EQ(provenance(parents).key, parent.key);
      EXPECT_EQ(provenance(parents).rank, 5);
      EXPECT_EQ(provenance(generation()).pid, getpid());
      EXPECT_NE(provenance(generation()).key, parent.key);
    });
    EXPECT_FALSE(is_past(parents));
  });
}

TEST(Provenance, OutlivesAFreshStart) {
  in_child([] {
    open_gate();
    begin_session(2);
    Journal::instance().remember_session();
    const Generation before = generation();
    const base::Id key = provenance(before).key;
    start_over();
    EXPECT_EQ(provenance(before).key, key) << "it is the same session";
    EXPECT_EQ(provenance(generation()).key, key);
    EXPECT_FALSE(is_past(before));
  });
}

}  // namespace
}  // namespace sonde::record
