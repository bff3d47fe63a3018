#include <atomic>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>

#include "engine/spool/recovery.h"
#include "tests/engine/support/running_session.h"

namespace sonde::session {
namespace {

using testing::engine;
using testing::find_span;
using testing::in_child;
using testing::names_of;
using testing::read_spool;
using testing::spool_to;
using testing::stop;
using testing::TempDir;
using Names = std::vector<std::string>;

TEST(ForkedSession, ChildHasNoneAndWritesNothing) {
  const TempDir dir;
  in_child([&] {
    Options options = spool_to(dir.path());
    options.flush_interval_ns = 3'600'000'000'000;
    engine().start(options);
    engine().flush();
    testing::close(testing::open("buffered in the parent"));
    testing::open("open in the parent");
    in_child([&] {
      EXPECT_FALSE(engine().active());
      EXPECT_EQ(engine().counters().mode, Counters::Mode::kStopped);
      testing::close(testing::open("child's"));
      const model::Batch batch = testing::trace();
      EXPECT_EQ(names_of(batch.spans), (Names{"child's"}));
      EXPECT_EQ(batch.spans.at(0).pid, getpid());
      EXPECT_FALSE(batch.spans.at(0).parent_id);
      stop();  // of nothing
    });
    EXPECT_TRUE(testing::files_in(dir / "spool", ".json").empty());
    EXPECT_EQ(testing::files_in(dir / "live", ".journal").size(), 1u);
    stop();
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 3u);
  });
}

TEST(ForkedSession, ChildMayHaveOneOfItsOwn) {
  if (!testing::kChildHasThreads) GTEST_SKIP() << "not with this sanitizer";
  const TempDir dir;
  in_child([&] {
    engine().start(spool_to(dir.path()));
    in_child([&] {
      engine().start(spool_to(dir.path()));
      testing::close(testing::open("child's"));
      stop();
    });
    testing::close(testing::open("parent's"));
    stop();
    const auto spool = read_spool(dir.path());
    ASSERT_EQ(spool.spans.size(), 4u);
    EXPECT_NE(find_span(spool.spans, "child's")->pid, find_span(spool.spans, "parent's")->pid);
    EXPECT_NE(find_span(spool.spans, "child's")->parent_id,
              find_span(spool.spans, "parent's")->parent_id);
    std::unordered_set<base::Id, base::IdHash> ids;
    for (const model::Span& span : spool.spans) ids.insert(span.id);
    EXPECT_EQ(ids.size(), 4u);
  });
}

// Forked at any moment of the drain thread's work: no lock of its stays behind in the child.
TEST(ForkedSession, WhileTheDrainThreadWrites) {
  const TempDir dir;
  in_child([&] {
    Options options = spool_to(dir.path());
    options.flush_interval_ns = 50'000;
    engine().start(options);
    std::atomic<bool> done{false};
    std::thread recorder([&] {
      // A fork is slow where memory is shadowed: without a pause this would fill the disk
      // meanwhile.
      for (; !done.load(); ::usleep(10)) testing::close(testing::open("work"));
    });
    for (int i = 0; i < 60; ++i) {
      in_child([&] {
        testing::close(testing::open("child's"));
        EXPECT_EQ(testing::trace().spans.size(), 1u);
        if (i % 10 == 0 && testing::kChildHasThreads) {
          engine().start(spool_to(dir / "children"));
          testing::close(testing::open("child's too"));
          stop();
        }
      });
      ::usleep(300);
    }
    done.store(true);
    recorder.join();
    stop();
    const auto parent = read_spool(dir.path());
    EXPECT_EQ(find_span(parent.spans, "child's"), nullptr);
    std::unordered_set<base::Id, base::IdHash> ids;
    for (const model::Span& span : parent.spans) ids.insert(span.id);
    EXPECT_EQ(ids.size(), parent.spans.size());
    // What was looked at before is part of the first write.
    EXPECT_EQ(read_spool(dir / "children").spans.size(), testing::kChildHasThreads ? 6u * 3 : 0u);
  });
}

TEST(ForkedSession, KilledParentIsRecoveredAlthoughItsChildLives) {
  const TempDir dir;
  testing::Child parent([&](const testing::Child::Say& say) {
    engine().start(spool_to(dir.path()));
    testing::close(testing::open("parent's"));
    if (::fork() == 0) {
      say();
      ::usleep(2'000'000);
      ::_exit(0);
    }
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(parent.heard());
  parent.kill_and_wait();
  EXPECT_EQ(spool::recover_directory(dir.path()).journals, 1u);
}

}  // namespace
}  // namespace sonde::session
