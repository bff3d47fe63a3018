// After fork the child starts with nothing of the parent's, and does nothing to it.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/spool/recovery.h"
#include "tests/engine/support/child.h"
#include "tests/engine/support/ring_tap.h"
#include "tests/engine/support/temp_dir.h"

namespace sonde::record {
namespace {

using testing::Child;
using testing::in_child;
using testing::names_of;
using testing::RingTap;
using testing::TempDir;
using Names = std::vector<std::string>;

void attach(const std::string& path) {
  close_gate();
  Journal::instance().begin_session({});
  EXPECT_TRUE(Journal::instance().attach_file(path).ok());
  open_gate();
}

TEST(Fork, ChildRecordsNothingIntoTheParentsFile) {
  const TempDir dir;
  in_child([&] {
    open_gate();
    attach(dir / "a.journal");
    const ScopeHandle open = testing::open("parent's");
    in_child([&] {
      EXPECT_FALSE(Journal::instance().on_file());
      EXPECT_NE(Journal::instance().header().key, base::Id());
      for (int i = 0; i < 2000; ++i) testing::close(testing::open("child's"));
      RingTap tap;
      const ScopeHandle own = testing::open("child's open");
      testing::close(own);
      EXPECT_EQ(names_of(tap.take().spans), (Names{"child's open"}));
    });
    testing::close(testing::open("parent's too"));
    model::Process report;
    ASSERT_TRUE(spool::inspect_journal(dir / "a.journal", report).ok());
    EXPECT_EQ(names_of(report.records.spans), (Names{"parent's too"}));
    ASSERT_EQ(report.state.open.size(), 1u);
    EXPECT_EQ(report.state.open[0].span.name, "parent's");
    testing::close(open);
  });
}

TEST(Fork, ChildDoesNotKeepADeadParentsJournalLocked) {
  const TempDir dir;
  Child parent([&](const Child::Say& say) {
    open_gate();
    attach(dir / "a.journal");
    const pid_t orphan = ::fork();
    if (orphan == 0) {
      say();
      for (int i = 0; i < 500; ++i)
        ::usleep(10'000);  // outlives the test's question, not the machine
      ::_exit(0);
    }
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(parent.heard());
  model::Process report;
  ASSERT_TRUE(spool::inspect_journal(dir / "a.journal", report).ok());
  EXPECT_EQ(report.state.fate, model::Fate::kRunning);
  parent.kill_and_wait();
  ASSERT_TRUE(spool::inspect_journal(dir / "a.journal", report).ok());
  EXPECT_NE(report.state.fate, model::Fate::kRunning);
}

TEST(Fork, IdsOfParentAndChildDiffer) {
  in_child([] {
    open_gate();
    const base::Id key = Journal::instance().header().key;
    in_child([&] { EXPECT_NE(Journal::instance().header().key, key); });
    EXPECT_EQ(Journal::instance().header().key, key);
  });
}

TEST(Fork, WhileOtherThreadsRecordAndIntern) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer's allocator leaves its own locks behind in a forked child";
#endif
  in_child([] {
    open_gate();
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&stop, t] {
        for (int i = 0; !stop.load(); ++i) {
          std::thread([&] {
            testing::close(
                testing::open("fork " + std::to_string(t) + "." + std::to_string(i % 500)));
          }).join();
        }
      });
    }
    for (int i = 0; i < 50; ++i) {
      in_child([] {
        RingTap tap;
        testing::close(testing::open("in the child"));  // a lock left behind would hang here
        EXPECT_EQ(names_of(tap.take().spans), (Names{"in the child"}));
      });
    }
    stop.store(true);
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(Fork, GrandchildrenAndClosedGates) {
  in_child([] {
    open_gate();
    in_child([] {
      in_child([] { EXPECT_TRUE(testing::close(testing::open("grandchild"))); });
      close_gate();
      in_child([] {
        EXPECT_FALSE(gate_open()) << "a gate that was closed stays closed";
        EXPECT_FALSE(testing::open("no"));
      });
    });
  });
}

TEST(Fork, GuardAroundAForkIsHarmlessInTheChild) {
  in_child([] {
    open_gate();
    RingTap tap;
    pid_t child = 0;
    {
      SONDE_SCOPE("around");
      child = ::fork();
      if (child == 0) {
        SONDE_SCOPE("child");
      }
    }
    if (child == 0) ::_exit(names_of(RingTap(true).take().spans) == Names{"child"} ? 0 : 1);
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(names_of(tap.take().spans), (Names{"around"}));
  });
}

}  // namespace
}  // namespace sonde::record
