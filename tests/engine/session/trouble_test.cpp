// Disks that are full, gone or read-only: recording goes on, one warning says what to do, nothing
// is lost that can be kept.
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/deadline.h"
#include "engine/session/engine.h"
#include "engine/session/outbox.h"
#include "engine/spool/recovery.h"
#include "tests/engine/support/captures.h"
#include "tests/engine/support/refuse.h"
#include "tests/engine/support/running_session.h"
#include "tests/engine/support/slots.h"

namespace sonde::session {
namespace {

using testing::engine;
using testing::files_in;
using testing::fill_up;
using testing::find_span;
using testing::in_child;
using testing::LogLines;
using testing::names_of;
using testing::read_spool;
using testing::RunningSession;
using testing::soon;
using testing::spool_to;
using testing::stop;
using testing::TempDir;
using Names = std::vector<std::string>;

void record(int count) {
  for (int i = 0; i < count; ++i) testing::close(testing::open("x"));
}

TEST(Trouble, WithoutAThreadFlushAndStopWrite) {
  const TempDir dir;
  in_child([&] {
    if (!testing::refuse_threads()) GTEST_SKIP() << "cannot filter calls here";
    LogLines log;
    session::Options options = spool_to(dir.path());
    options.handle_signals = true;
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, nullptr, &before);
    engine().start(options);
    pthread_sigmask(SIG_SETMASK, nullptr, &after);
    EXPECT_EQ(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
    struct sigaction action;
    ASSERT_EQ(::sigaction(SIGTERM, nullptr, &action), 0);
    EXPECT_EQ(action.sa_handler, SIG_DFL) << "no thread would act on it";
    EXPECT_EQ(LogLines::count("cannot start a thread"), 1u) << LogLines::all();
    record(10);
    engine().flush();
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 10u);
    record(5);
    stop();
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 16u) << "with the session's own";
    EXPECT_TRUE(files_in(dir / "live").empty());
  });
}

TEST(Trouble, FullDiskKeepsBatchesUntilThereIsRoom) {
  TempDir dir;
  if (!dir.mount_small(16 << 20)) GTEST_SKIP() << "cannot mount a small file system here";
  in_child([&] {
    LogLines log;
    engine().start(spool_to(dir.path()));
    record(100);
    engine().flush();
    const std::string ballast = fill_up(dir.path());
    for (int i = 0; i < 5; ++i) {
      record(1000);
      engine().flush();
    }
    Counters counters = engine().counters();
    EXPECT_EQ(counters.mode, Counters::Mode::kDegraded);
    EXPECT_GT(counters.write_failures, 0u);
    EXPECT_EQ(counters.waiting_batches, 5u);
    EXPECT_EQ(LogLines::count("No space left on device"), 1u) << LogLines::all();
    EXPECT_TRUE(LogLines::has("free space")) << "what to do";
    std::filesystem::remove(ballast);
    engine().flush();
    counters = engine().counters();
    EXPECT_EQ(counters.mode, Counters::Mode::kNormal);
    EXPECT_EQ(counters.waiting_batches, 0u);
    stop();
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 5101u) << "nothing lost, nothing twice";
    EXPECT_TRUE(files_in(dir / "live").empty());
  });
}

TEST(Trouble, FullDiskAtTheStopLeavesTheJournalForTheNextRun) {
  TempDir dir;
  if (!dir.mount_small(16 << 20)) GTEST_SKIP() << "cannot mount a small file system here";
  in_child([&] {
    LogLines log;
    engine().start(spool_to(dir.path()));
    record(100);
    engine().flush();
    const std::string ballast = fill_up(dir.path());
    record(1000);
    engine().flush();
    record(10);
    testing::open("left open");
    stop();
    ASSERT_EQ(files_in(dir / "live", ".journal").size(), 1u);
    model::Process left;
    ASSERT_TRUE(spool::inspect_journal(files_in(dir / "live", ".journal")[0], left).ok());
    EXPECT_EQ(left.state.fate, model::Fate::kEnded) << "not killed, and not all is in the spool";
    std::filesystem::remove(ballast);

    // In the same process; another one would do the same.
    engine().start(spool_to(dir.path()));
    record(1);
    engine().flush();
    EXPECT_EQ(engine().counters().recovered_journals, 1u);
    EXPECT_EQ(engine().counters().recovered_spans, 1012u);
    EXPECT_TRUE(LogLines::has("could not write everything when it ended")) << LogLines::all();
    EXPECT_FALSE(LogLines::has("ended without shutdown")) << LogLines::all();
    stop();
    const auto spool = read_spool(dir.path());
    EXPECT_EQ(spool.spans.size(), 100u + 1012 + 2);
    const Names names = names_of(spool.spans);
    EXPECT_EQ(std::count(names.begin(), names.end(), "sonde.session"), 2);
    EXPECT_EQ(find_span(spool.spans, "left open")->attrs, R"("sonde.closed_by":"shutdown")");
    EXPECT_TRUE(files_in(dir / "live").empty());
  });
}

TEST(Trouble, FullDiskAndAKillLoseNothingEither) {
  TempDir dir;
  if (!dir.mount_small(16 << 20)) GTEST_SKIP() << "cannot mount a small file system here";
  std::string ballast;
  testing::Child child([&](const testing::Child::Say& say) {
    engine().start(spool_to(dir.path()));
    record(100);
    engine().flush();
    fill_up(dir.path());
    record(1000);
    engine().flush();
    std::thread([] { record(1); }).join();  // a new thread: the ring moves on with nothing to write
    engine().flush();
    std::thread([] { testing::open("thread without a span"); }).join();
    engine().flush();
    say();
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(child.heard());
  child.kill_and_wait();
  std::filesystem::remove(dir / "ballast");
  spool::recover_directory(dir.path());
  EXPECT_EQ(read_spool(dir.path()).spans.size(), 100u + 1000 + 1 + 1 + 1);
}

TEST(Trouble, ReadOnlyDirectoryMeansMemoryAndOneWarning) {
  TempDir dir;
  if (!dir.mount_small(1 << 20)) GTEST_SKIP() << "cannot mount a small file system here";
  ASSERT_TRUE(dir.remount_read_only());
  in_child([&] {
    LogLines log;
    engine().start(spool_to(dir / "out"));
    record(10);
    engine().flush();
    record(10);
    engine().flush();
    EXPECT_EQ(testing::trace().spans.size(), 21u);
    EXPECT_TRUE(engine().counters().journal.empty());
    EXPECT_EQ(LogLines::count("recording goes on in memory"), 1u) << LogLines::all();
    EXPECT_EQ(LogLines::count(""), 1u) << "and it stays at that one line";
    stop();
    EXPECT_FALSE(engine().active());
  });
}

TEST(Trouble, DirectoryRemovedMidRunIsMadeAgain) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    engine().start(spool_to(dir / "out"));
    record(10);
    engine().flush();
    std::filesystem::remove_all(dir / "out");
    record(20);
    engine().flush();
    EXPECT_EQ(read_spool(dir / "out").spans.size(), 20u);
    EXPECT_EQ(LogLines::count("was removed"), 1u) << "the journal is gone: said once";
    stop();
    EXPECT_NE(find_span(read_spool(dir / "out").spans, "sonde.session"), nullptr);
  });
}

TEST(Trouble, OutputDirectoryThatIsAFile) {
  const TempDir dir;
  std::ofstream(dir / "out") << "in the way";
  in_child([&] {
    LogLines log;
    engine().start(spool_to(dir / "out"));
    record(10);
    EXPECT_EQ(testing::trace().spans.size(), 11u);
    stop();
    EXPECT_TRUE(LogLines::has("make " + (dir / "out") + " writable")) << LogLines::all();
  });
}

TEST(Trouble, ARunThatLosesEverythingSaysSoAtItsBeginningAndCountsAtItsEnd) {
  const TempDir dir;
  std::ofstream(dir / "out") << "in the way";
  in_child([&] {
    LogLines log;
    engine().start(spool_to(dir / "out"));
    EXPECT_TRUE(LogLines::has("nothing of it will be on disk unless this is fixed before the run"))
        << LogLines::all();
    record(10);
    engine().flush();
    testing::mark("loss", 1.5);
    stop();
    EXPECT_TRUE(LogLines::has("11 spans and 1 mark could not be written to " + (dir / "out/spool") +
                              " and are lost; free space there, make it writable"))
        << LogLines::all();
    EXPECT_EQ(LogLines::count("Not a directory"), 2u) << "both say why\n" << LogLines::all();
  });
}

TEST(Trouble, ADirectoryThatIsFixedBeforeTheEndLosesNothing) {
  const TempDir dir;
  std::ofstream(dir / "out") << "in the way";
  in_child([&] {
    LogLines log;
    engine().start(spool_to(dir / "out"));
    record(10);
    engine().flush();
    std::filesystem::remove(dir / "out");
    stop();
    EXPECT_EQ(read_spool(dir / "out").spans.size(), 11u);
    EXPECT_FALSE(LogLines::has("are lost")) << LogLines::all();
  });
}

TEST(Trouble, ASpoolThatCannotBeWrittenLosesNothingWhereThereIsAJournal) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    engine().start(spool_to(dir.path()));
    std::filesystem::remove_all(dir / "spool");
    std::ofstream(dir / "spool") << "in the way";
    record(10);
    engine().flush();
    stop();
    EXPECT_FALSE(LogLines::has("lost")) << LogLines::all();
    EXPECT_TRUE(LogLines::has("and stay in ")) << LogLines::all();
    EXPECT_EQ(files_in(dir / "live", ".journal").size(), 1u);
  });
}

TEST(Trouble, JournalOfAnotherVersionIsLeftAloneAndSaidOnce) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "live");
  testing::leave_journal(dir.path(), [] { testing::own_header().version = 99; });
  in_child([&] {
    LogLines log;
    engine().start(spool_to(dir.path()));
    record(1);
    engine().flush();
    EXPECT_EQ(engine().counters().recovery_problems, 1u);
    EXPECT_EQ(LogLines::count("version 99"), 1u) << LogLines::all();
    stop();
    EXPECT_EQ(files_in(dir / "live").size(), 1u);
  });
}

// The file of an earlier run could not grow, and its process was killed.
TEST(Trouble, RecordsThatRecoveryCannotReadAreCountedAndSaid) {
  const TempDir dir;
  testing::leave_journal(dir.path(), [] {
    for (int i = 0; i < 140'000; ++i) testing::close(testing::open("x"));
  });
  in_child([&] {
    LogLines log;
    engine().start(spool_to(dir.path()));
    record(1);
    engine().flush();
    EXPECT_EQ(engine().counters().recovery_problems, 1u);
    EXPECT_EQ(engine().counters().recovered_journals, 1u);
    EXPECT_TRUE(LogLines::has("ended without shutdown")) << LogLines::all();
    EXPECT_TRUE(
        LogLines::has("could not be read from its journal are lost, at least 1; leave room"))
        << LogLines::all();
    stop();
    EXPECT_TRUE(files_in(dir / "live").empty());
  });
}

TEST(Trouble, TruncatedJournalIsSurvived) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    engine().start(spool_to(dir.path()));
    record(10);
    engine().flush();
    ASSERT_EQ(::truncate(engine().counters().journal.c_str(), 0), 0);
    for (int i = 0; i < 10; ++i) {
      record(1000);
      engine().flush();
    }
    EXPECT_TRUE(LogLines::has("truncated")) << LogLines::all();
    stop();
    engine().start(spool_to(dir / "fresh"));
    record(5);
    stop();
    const auto fresh = read_spool(dir / "fresh");
    EXPECT_NE(find_span(fresh.spans, "sonde.session"), nullptr);
    const Names names = names_of(fresh.spans);
    EXPECT_EQ(std::count(names.begin(), names.end(), "x"), 5) << "the next session is whole again";
    const std::int64_t now = base::wall_clock_ns();
    for (const model::Span& span : read_spool(dir.path()).spans) {
      EXPECT_NEAR(static_cast<double>(span.start_ns), static_cast<double>(now), 60e9)
          << "what is written is never nonsense";
      EXPECT_FALSE(span.name.empty());
    }
  });
}

// Counters of the journal's memory vanish with it.
TEST(Trouble, LossesAreCountedFromTheBeginningOfTheSession) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    const auto lost_in_header = [] { return testing::own_header().lost_records; };
    engine().start(spool_to(dir.path()));
    for (int i = 0; i < 5; ++i) record::count_laneless(false);
    for (int i = 0; i < 100; ++i) testing::open("deep");
    engine().flush();
    EXPECT_EQ(engine().counters().dropped_spans, 5u);
    EXPECT_EQ(engine().counters().dropped_scopes, 36u);
    EXPECT_EQ(lost_in_header(), 5u);
    stop();
    EXPECT_EQ(LogLines::count("the newest are dropped"), 1u) << LogLines::all();

    engine().start(spool_to(dir.path()));
    record(1);
    engine().flush();
    EXPECT_EQ(engine().counters().dropped_spans, 0u);
    EXPECT_EQ(engine().counters().dropped_scopes, 0u);
    EXPECT_EQ(lost_in_header(), 0u);
    ASSERT_EQ(::truncate(engine().counters().journal.c_str(), 0), 0);
    record(1000);
    engine().flush();
    EXPECT_TRUE(soon([] { return engine().counters().journal.empty(); })) << "it starts over";
    EXPECT_EQ(engine().counters().dropped_scopes, 0u) << "still none";
    EXPECT_EQ(engine().counters().dropped_spans, 0u);
    stop();
    EXPECT_EQ(LogLines::count("the newest are dropped"), 1u) << LogLines::all();
  });
}

TEST(Trouble, AFaultInAnEarlierSessionIsNotSaidOfALaterOne) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    engine().start(spool_to(dir / "first"));
    ASSERT_EQ(::truncate(engine().counters().journal.c_str(), 0), 0);
    record(1000);
    engine().flush();
    stop();
    const std::string said = LogLines::all();
    engine().start(spool_to(dir / "second"));
    record(1);
    engine().flush();
    stop();
    EXPECT_EQ(LogLines::all(), said);
  });
}

// For the thread sanitizer: the path of the journal and the count of damaged records change while
// they are asked for.
TEST(Trouble, CountersMayBeReadWhileTheJournalStartsOver) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    const RunningSession session(spool_to(dir.path()));
    const std::string journal = engine().counters().journal;
    std::atomic<bool> done{false};
    std::thread reader([&] {
      while (!done.load()) {
        const std::string path = engine().counters().journal;
        EXPECT_TRUE(path.empty() || path == journal) << path;
      }
    });
    ASSERT_EQ(::truncate(journal.c_str(), 0), 0);
    record(1000);
    engine().flush();
    EXPECT_TRUE(soon([] { return engine().counters().journal.empty(); }));
    done.store(true);
    reader.join();
  });
}

TEST(Trouble, SinkThatThrowsLosesNeitherBatchNorThread) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    Options options = spool_to(dir.path());
    options.on_batch = [](std::string_view) { throw std::runtime_error("sink"); };
    engine().start(options);
    for (int i = 0; i < 3; ++i) {
      record(10);
      engine().flush();
    }
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 30u);
    stop();
    EXPECT_NE(find_span(read_spool(dir.path()).spans, "sonde.session"), nullptr);
  });
}

TEST(Outbox, GivesUpTheOldestBeyondItsBoundAndCountsIt) {
  const TempDir dir;
  std::ofstream(dir / "spool") << "in the way";
  in_child([&] {
    LogLines log;
    spool::Directory directory(dir.path(), ~std::uint64_t{0});
    Outbox outbox(directory);
    const std::string json(16 << 20, 'x');
    for (std::uint64_t i = 1; i <= 6; ++i)
      outbox.send(static_cast<std::int64_t>(i), {0, i}, json, {});
    EXPECT_EQ(outbox.lost(), 2u);
    EXPECT_EQ(outbox.waiting(), 4u);
    std::filesystem::remove(dir / "spool");
    EXPECT_TRUE(outbox.retry(base::kNoDeadline));
    EXPECT_EQ(outbox.waiting(), 0u);
    EXPECT_FALSE(directory.contains(2, {0, 2}));
    EXPECT_TRUE(directory.contains(3, {0, 3}));
    EXPECT_EQ(LogLines::count("cannot"), 1u) << LogLines::all();
  });
}

TEST(Outbox, PastItsDeadlineABatchJoinsThoseThatWait) {
  const TempDir dir;
  std::ofstream(dir / "spool") << "in the way";
  in_child([&] {
    LogLines log;
    spool::Directory directory(dir.path(), ~std::uint64_t{0});
    Outbox outbox(directory);
    outbox.send(1, {0, 1}, "{}", {});
    std::filesystem::remove(dir / "spool");
    outbox.retry_until(1);
    outbox.send(2, {0, 2}, "{}", {});
    EXPECT_EQ(outbox.waiting(), 2u);
    outbox.retry_until(base::kNoDeadline);
    outbox.send(3, {0, 3}, "{}", {});
    EXPECT_EQ(outbox.waiting(), 0u);
    outbox.retry_until(1);
    outbox.send(4, {0, 4}, "{}", {});
    EXPECT_EQ(outbox.waiting(), 0u) << "the disk works, as far as is known";
  });
}

TEST(Outbox, WithoutTimeToWaitOneBatchIsTriedAgain) {
  const TempDir dir;
  std::ofstream(dir / "spool") << "in the way";
  in_child([&] {
    LogLines log;
    spool::Directory directory(dir.path(), ~std::uint64_t{0});
    Outbox outbox(directory);
    for (std::uint64_t i = 1; i <= 3; ++i)
      outbox.send(static_cast<std::int64_t>(i), {0, i}, "{}", {});
    std::filesystem::remove(dir / "spool");
    EXPECT_FALSE(outbox.retry(0));
    EXPECT_EQ(outbox.waiting(), 2u);
    EXPECT_TRUE(outbox.retry(base::kNoDeadline));
  });
}

}  // namespace
}  // namespace sonde::session
