// Captures on their way through a session, each test in a child process.
#include "engine/session/captures.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/face.h"
#include "tests/engine/support/captures.h"
#include "tests/engine/support/running_session.h"

namespace sonde::session {
namespace {

using snapshot::Capture;
using testing::capture_of;
using testing::Child;
using testing::count_in;
using testing::engine;
using testing::in_child;
using testing::kSpan;
using testing::LogLines;
using testing::read_spool;
using testing::RunningSession;
using testing::slow_flush;
using testing::snapshots_in;
using testing::soon;
using testing::spool_to;
using testing::stop;
using testing::Switch;
using testing::TempDir;

TEST(Captures, ReachTheSpoolAtOnce) {
  const TempDir dir;
  in_child([&] {
    const RunningSession session(slow_flush(dir.path()));
    engine().add_capture(capture_of(3));
    ASSERT_TRUE(soon([&] { return count_in(dir.path()) == 3; })) << "without a flush()";
    const auto spool = read_spool(dir.path());
    EXPECT_EQ(spool.batches.at(0)->snapshots.at(2).span_id, kSpan);
    EXPECT_NE(snapshots_in(spool)[2].find(R"("tensor_name":"w2","shape":[2,3])"),
              std::string::npos);
    EXPECT_NE(spool.batches.at(0)->snapshots.at(0).id, spool.batches.at(0)->snapshots.at(1).id);
    EXPECT_EQ(engine().counters().snapshots, 3u);
  });
}

TEST(Captures, LargeModelIsManyFilesInOrder) {
  const TempDir dir;
  in_child([&] {
    engine().start(slow_flush(dir.path()));
    engine().add_capture(capture_of(10'000));
    engine().add_capture(capture_of(10, "other"));
    engine().flush();
    const auto spool = read_spool(dir.path());
    const std::vector<std::string> all = snapshots_in(spool);
    ASSERT_EQ(all.size(), 10'010u);
    for (std::size_t i = 0; i < 10'000; ++i) {
      const std::string name = R"("tensor_name":"w)" + std::to_string(i) + '"';
      ASSERT_NE(all[i].find(name), std::string::npos) << i;
    }
    for (const auto& batch : spool.batches) EXPECT_LE(batch->snapshots.size(), 1024u);
    stop();
    EXPECT_EQ(count_in(dir.path()), 10'010u) << "written once";
  });
}

TEST(Captures, StopWritesWhatFlushDidNot) {
  const TempDir dir;
  in_child([&] {
    for (int round = 1; round <= 20; ++round) {
      engine().start(slow_flush(dir.path()));
      engine().add_capture(capture_of(1));
      stop();
      ASSERT_EQ(count_in(dir.path()), static_cast<std::size_t>(round));
    }
  });
}

TEST(Captures, FromManyThreads) {
  const TempDir dir;
  in_child([&] {
    engine().start(spool_to(dir.path()));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 100; ++i) engine().add_capture(capture_of(5));
      });
    }
    for (std::thread& thread : threads) thread.join();
    stop();
    EXPECT_EQ(count_in(dir.path()), 2000u);
    EXPECT_EQ(engine().counters().snapshots, 2000u);
    EXPECT_EQ(engine().counters().dropped_snapshots, 0u);
  });
}

TEST(Captures, WaitForWhatIsUnderWay) {
  const TempDir dir;
  in_child([&] {
    const RunningSession session(slow_flush(dir.path()));
    const auto on = std::make_shared<std::atomic<bool>>(false);
    Capture slow = capture_of(2, "slow");
    slow.statistics.assign(2, std::nullopt);
    slow.pending = std::make_unique<Switch>(on);
    engine().add_capture(std::move(slow));
    engine().add_capture(capture_of(1));
    ASSERT_TRUE(soon([&] { return count_in(dir.path()) == 1; })) << "no capture waits for another";
    on->store(true);
    ASSERT_TRUE(soon([&] { return count_in(dir.path()) == 3; })) << "found without a flush";
    EXPECT_NE(snapshots_in(read_spool(dir.path()))[1].find(R"("mean":2.5)"), std::string::npos);
  });
}

TEST(Captures, FlushWaitsForThemAMoment) {
  const TempDir dir;
  in_child([&] {
    const RunningSession session(slow_flush(dir.path()));
    const auto on = std::make_shared<std::atomic<bool>>(false);
    Capture slow = capture_of(2);
    slow.pending = std::make_unique<Switch>(on);
    engine().add_capture(std::move(slow));
    std::thread later([on] {
      ::usleep(300'000);
      on->store(true);
    });
    engine().flush();
    EXPECT_EQ(count_in(dir.path()), 2u);
    later.join();

    Capture never = capture_of(1);
    never.pending = std::make_unique<Switch>(std::make_shared<std::atomic<bool>>(false));
    engine().add_capture(std::move(never));
    const std::uint64_t start = base::monotonic_ns();
    engine().flush();
    EXPECT_LT(base::monotonic_ns() - start, 10'000'000'000u);
    EXPECT_EQ(count_in(dir.path()), 2u);
  });
}

TEST(Captures, TerminationWritesWhatThereIs) {
  const TempDir dir;
  Child child([&](const Child::Say& say) {
    Options options = slow_flush(dir.path());
    options.handle_signals = true;
    engine().start(options);
    Capture never = capture_of(2, "never");
    never.statistics.assign(2, std::nullopt);
    never.pending = std::make_unique<Switch>(std::make_shared<std::atomic<bool>>(false));
    engine().add_capture(std::move(never));
    engine().add_capture(capture_of(1));
    say();
    for (;;) ::usleep(1000);
  });
  ASSERT_TRUE(child.heard());
  const int status = child.kill_and_wait(SIGTERM);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  const std::vector<std::string> all = snapshots_in(read_spool(dir.path()));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_NE(all[1].find(R"("stats":null)"), std::string::npos);
}

TEST(Captures, KilledARunLosesMilliseconds) {
  const TempDir dir;
  Child child([&](const Child::Say& say) {
    engine().start(slow_flush(dir.path()));
    engine().add_capture(capture_of(100));
    ::usleep(500'000);
    say();
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(child.heard());
  child.kill_and_wait();
  EXPECT_EQ(count_in(dir.path()), 100u);
}

TEST(Captures, WithoutASessionTheyAreCounted) {
  const TempDir dir;
  in_child([&] {
    engine().add_capture(capture_of(2));
    EXPECT_EQ(engine().counters().dropped_snapshots, 2u);
    engine().start(spool_to(dir.path()));
    EXPECT_EQ(engine().counters().dropped_snapshots, 0u);
    stop();
    engine().add_capture(capture_of(3));
    EXPECT_EQ(engine().counters().dropped_snapshots, 3u);
    EXPECT_EQ(count_in(dir.path()), 0u);
  });
}

TEST(Captures, SinksGetThemWithoutADirectory) {
  in_child([] {
    std::vector<std::string> batches;
    Options options;
    options.handle_signals = false;
    options.on_batch = [&](std::string_view json) { batches.emplace_back(json); };
    engine().start(options);
    engine().add_capture(capture_of(2));
    stop();
    ASSERT_EQ(batches.size(), 2u) << "the capture, and the session's span";
    const bool first = batches[0].find("tensor_name") != std::string::npos;
    EXPECT_NE(batches[first ? 0 : 1].find(R"("tensor_name":"w1")"), std::string::npos);
    EXPECT_EQ(engine().counters().snapshots, 2u);
  });
}

TEST(Captures, WithNobodyToReadThemTheyAreOnlyCounted) {
  in_child([] {
    Options options;
    options.handle_signals = false;
    const RunningSession session(options);
    engine().add_capture(capture_of(2000));
    engine().flush();
    EXPECT_EQ(engine().counters().snapshots, 2000u);
    EXPECT_EQ(engine().counters().flushed_batches, 0u);
  });
}

TEST(Captures, ForkedChildHasNone) {
  const TempDir dir;
  in_child([&] {
    engine().start(slow_flush(dir.path()));
    Capture never = capture_of(2);
    never.pending = std::make_unique<Switch>(std::make_shared<std::atomic<bool>>(false));
    engine().add_capture(std::move(never));
    in_child([&] {
      EXPECT_EQ(engine().counters().dropped_snapshots, 0u);
      engine().flush();
      engine().add_capture(capture_of(1));
      EXPECT_EQ(engine().counters().dropped_snapshots, 1u);
    });
    EXPECT_EQ(count_in(dir.path()), 0u);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  });
}

TEST(Captures, FullDiskLosesSnapshotsBeforeSpans) {
  TempDir dir;
  if (!dir.mount_small(1 << 20)) GTEST_SKIP() << "cannot mount a small file system here";
  in_child([&] {
    LogLines log;
    engine().start(slow_flush(dir.path()));
    testing::close(testing::open("before"));
    engine().flush();
    for (int i = 0; i < 10; ++i) engine().add_capture(capture_of(1000));
    testing::close(testing::open("after"));
    stop();
    const Counters all = engine().counters();
    EXPECT_GT(all.dropped_snapshots, 0u);
    EXPECT_EQ(all.snapshots + all.dropped_snapshots, 10'000u);
    EXPECT_TRUE(LogLines::has("snapshot records could not be written")) << LogLines::all();
    const auto spool = read_spool(dir.path());
    EXPECT_EQ(snapshots_in(spool).size(), all.snapshots);
    EXPECT_NE(testing::find_span(spool.spans, "before"), nullptr);
  });
}

TEST(Captures, TooManyAreDroppedAndSaid) {
  in_child([] {
    LogLines log;
    base::Face face;
    face.advice["snapshots-dropped"] = "snapshot_drop_count counts them";
    base::set_face(face);
    Captures captures;
    ASSERT_TRUE(captures.add(capture_of(Captures::kMaxRecords + 1))) << "one is always taken";
    ASSERT_FALSE(captures.add(capture_of(1)));
    EXPECT_EQ(captures.lost(), 1u);
    EXPECT_TRUE(LogLines::has("the newest are dropped; snapshot_drop_count counts them"));
    model::Batch batch;
    captures.look();
    captures.collect(~std::size_t{0} >> 1, false, batch);
    EXPECT_TRUE(captures.add(capture_of(1)));
  });
}

}  // namespace
}  // namespace sonde::session
