// What a dead process left gets into the spool completely and exactly once, also after
// interruptions.
#include <sys/stat.h>
#include <utime.h>

#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

#include "engine/journal/commit.h"
#include "engine/journal/file.h"
#include "engine/spool/directory.h"
#include "engine/spool/recovery.h"
#include "tests/engine/support/dead_journal.h"
#include "tests/engine/support/journal_image.h"
#include "tests/engine/support/slots.h"

namespace sonde::run {
namespace {

using testing::Child;
using testing::files_in;
using testing::find_span;
using testing::JournalImage;
using testing::leave_journal;
using testing::names_of;
using testing::read_spool;
using testing::SpoolContents;
using testing::TempDir;
using Names = std::vector<std::string>;

// first, second: closed; outer > inner: open, with a mark on inner.
void record_sample() {
  testing::close(testing::open("first"));
  testing::close(testing::open("second"));
  testing::open("outer", {.index = 3, .flags = record::kHasIndex});
  testing::open("inner", {.attrs = R"("k":1)"});
  testing::mark("loss", 0.5);
}

// Pretends that the owner had announced a batch holding everything up to and including `first`.
void announce_first(const std::string& path, std::uint64_t pending) {
  journal::File file;
  ASSERT_TRUE(file.open(path, true).ok());
  for (record::Lane* lane : file.lanes()) {
    testing::announce_slots(*lane, 2);  // the thread's record and one span
  }
  journal::announce(file.header(), {5, 6}, 1234, false);
  file.header().pending.store(pending);
}

void put_announced_file(const TempDir& dir) {
  ASSERT_TRUE(
      spool::Directory(dir.path(), ~std::uint64_t{0})
          .write(
              1234, {5, 6},
              R"({"schema_version":1,"sdk_version":"x","batch_id":"00000000000000050000000000000006",)"
              R"("created_ns":1234,"spans":[],"marks":[],"snapshots":[]})")
          .ok());
}

const Names kAll = {"first", "second", "inner", "outer"};

TEST(Recover, MovesEverythingIntoTheSpool) {
  const TempDir dir;
  const std::string path = leave_journal(dir.path(), record_sample);
  const model::Recovery recovery = spool::recover_directory(dir.path());
  EXPECT_EQ(recovery.journals, 1u);
  EXPECT_EQ(recovery.spans, 2u);
  EXPECT_EQ(recovery.marks, 1u);
  EXPECT_EQ(recovery.open_scopes, 2u);
  EXPECT_EQ(recovery.files.size(), 1u);
  EXPECT_TRUE(recovery.problems.empty());
  EXPECT_FALSE(std::filesystem::exists(path));

  const SpoolContents spool = read_spool(dir.path());
  EXPECT_EQ(names_of(spool.spans), kAll);
  const model::Span& inner = *find_span(spool.spans, "inner");
  const model::Span& outer = *find_span(spool.spans, "outer");
  EXPECT_EQ(inner.attrs, R"("k":1,"sonde.closed_by":"death")");
  EXPECT_EQ(outer.attrs, R"("sonde.closed_by":"death")");
  EXPECT_EQ(outer.index, 3);
  EXPECT_EQ(inner.parent_id, outer.id);
  EXPECT_EQ(inner.end_ns, outer.end_ns);
  EXPECT_GE(inner.end_ns, spool.marks.at(0).ts_ns) << "the last sign of life";
  EXPECT_EQ(spool.marks.at(0).span_id, inner.id);
  ASSERT_EQ(inner.mark_id_count, 1u);
  EXPECT_EQ(spool.batches.at(0)->mark_ids.at(inner.first_mark_id), spool.marks.at(0).id);
}

TEST(Recover, SecondTimeDoesNothing) {
  const TempDir dir;
  leave_journal(dir.path(), record_sample);
  spool::recover_directory(dir.path());
  const model::Recovery again = spool::recover_directory(dir.path());
  EXPECT_EQ(again.journals + again.spans + again.open_scopes + again.files.size(), 0u);
  EXPECT_EQ(read_spool(dir.path()).spans.size(), 4u);
}

TEST(Recover, NoFolderIsNoProblem) {
  const TempDir dir;
  const model::Recovery recovery = spool::recover_directory(dir / "never");
  EXPECT_EQ(recovery.journals, 0u);
  EXPECT_TRUE(recovery.problems.empty());
}

TEST(Recover, SeveralJournalsOfSeveralRanks) {
  const TempDir dir;
  for (int i = 0; i < 3; ++i) leave_journal(dir.path(), record_sample, "rank" + std::to_string(i));
  EXPECT_EQ(spool::recover_directory(dir.path()).journals, 3u);
  EXPECT_EQ(read_spool(dir.path()).spans.size(), 12u);
}

TEST(Recover, CleanJournalIsOnlyRemoved) {
  const TempDir dir;
  const std::string path = leave_journal(dir.path(), [] {
    record_sample();
    testing::own_header().clean = 1;
  });
  EXPECT_EQ(spool::recover_directory(dir.path()).spans, 0u);
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(files_in(dir / "spool").empty());
}

// Every point at which the owner, or an earlier recovery, can have died.
TEST(Recover, BatchAnnouncedAndNotWrittenIsWrittenNow) {
  const TempDir dir;
  announce_first(leave_journal(dir.path(), record_sample), journal::kBatch);
  EXPECT_EQ(spool::recover_directory(dir.path()).spans, 2u);
  EXPECT_EQ(names_of(read_spool(dir.path()).spans), kAll);
}

TEST(Recover, BatchAnnouncedAndWrittenIsNotWrittenAgain) {
  const TempDir dir;
  announce_first(leave_journal(dir.path(), record_sample), journal::kBatch);
  put_announced_file(dir);
  EXPECT_EQ(spool::recover_directory(dir.path()).spans, 1u);
  EXPECT_EQ(names_of(read_spool(dir.path()).spans), (Names{"second", "inner", "outer"}));
}

TEST(Recover, LastBatchAnnouncedAndNotWrittenIsWrittenNow) {
  const TempDir dir;
  announce_first(leave_journal(dir.path(), record_sample), journal::kLastBatch);
  spool::recover_directory(dir.path());
  EXPECT_EQ(names_of(read_spool(dir.path()).spans), kAll);
}

TEST(Recover, LastBatchWrittenMeansOnlyTheJournalIsLeft) {
  const TempDir dir;
  const std::string path = leave_journal(dir.path(), record_sample);
  announce_first(path, journal::kLastBatch);
  put_announced_file(dir);
  const model::Recovery recovery = spool::recover_directory(dir.path());
  EXPECT_EQ(recovery.spans + recovery.open_scopes, 0u);
  EXPECT_EQ(recovery.journals, 1u);
  EXPECT_TRUE(read_spool(dir.path()).spans.empty());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Recover, TailsBeingCopiedWithoutAFileAreCopiedToTheEnd) {
  const TempDir dir;
  announce_first(leave_journal(dir.path(), record_sample), journal::kTailsOnly);
  spool::recover_directory(dir.path());
  EXPECT_EQ(names_of(read_spool(dir.path()).spans), (Names{"second", "inner", "outer"}));
}

// A tail is three words. Killed between them, it points into a block that it does not belong to.
TEST(Recover, TailCopiedByHalfIsRepaired) {
  const TempDir dir;
  constexpr int kSpans = 2000;
  const std::string path = leave_journal(dir.path(), [] {
    for (int i = 0; i < kSpans; ++i)
      testing::close(testing::open("many", {.index = i, .flags = record::kHasIndex}));
  });
  journal::File file;
  ASSERT_TRUE(file.open(path, true).ok());
  journal::RingReader reader(file.view());
  record::Lane* lane = file.lanes().at(0);
  record::RingTail cursor = testing::tail_of(*lane);
  model::Batch moved;
  reader.read(*lane, cursor, 1500, moved, nullptr);
  testing::copy_tail_by_half(*lane, cursor);
  journal::announce(file.header(), {5, 6}, 1234, false);
  put_announced_file(dir);
  const model::Recovery recovery = spool::recover_directory(dir.path());
  EXPECT_EQ(recovery.spans, static_cast<std::uint64_t>(kSpans - 1500));
  const SpoolContents spool = read_spool(dir.path());
  ASSERT_EQ(spool.spans.size(), static_cast<std::size_t>(kSpans - 1500));
  EXPECT_EQ(spool.spans.front().index, 1500);
}

TEST(Recover, LongJournalBecomesSeveralBatches) {
  const TempDir dir;
  constexpr std::int64_t kSpans = 50'000;
  leave_journal(dir.path(), [] {
    for (std::int64_t i = 0; i < kSpans; ++i) {
      testing::close(testing::open("many", {.index = i, .flags = record::kHasIndex}));
      if (i % 1000 == 0) record::Journal::instance().grow().ok();
    }
  });
  const model::Recovery recovery = spool::recover_directory(dir.path());
  EXPECT_EQ(recovery.spans, std::uint64_t{kSpans});
  EXPECT_GT(recovery.files.size(), 1u);
  const SpoolContents spool = read_spool(dir.path());
  ASSERT_EQ(spool.spans.size(), std::size_t{kSpans});
  for (std::int64_t i = 0; i < kSpans; ++i)
    ASSERT_EQ(spool.spans[static_cast<std::size_t>(i)].index, i);
}

TEST(Recover, ManyLanesDoNotMakeOneHugeBatch) {
  const TempDir dir;
  leave_journal(dir.path(), [] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 6000; ++i) testing::close(testing::open("x"));
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  spool::recover_directory(dir.path());
  const SpoolContents spool = read_spool(dir.path());
  EXPECT_EQ(spool.spans.size(), 48'000u);
  for (const auto& batch : spool.batches) EXPECT_LE(batch->record_count(), 33'000u);
}

void expect_each_once(const SpoolContents& spool, std::int64_t spans) {
  std::unordered_map<base::Id, int, base::IdHash> seen;
  for (const model::Span& span : spool.spans) ++seen[span.id];
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(spans));
  EXPECT_EQ(spool.spans.size(), static_cast<std::size_t>(spans)) << "one of them twice";
}

TEST(Recover, SeveralAtTheSameTime) {
  const TempDir dir;
  constexpr int kJournals = 3, kSpans = 3000;
  for (int i = 0; i < kJournals; ++i) {
    leave_journal(
        dir.path(),
        [] {
          for (int k = 0; k < kSpans; ++k) testing::close(testing::open("x"));
        },
        "journal" + std::to_string(i));
  }
  std::vector<std::unique_ptr<Child>> recoverers;
  for (int i = 0; i < 6; ++i) {
    recoverers.push_back(
        std::make_unique<Child>([&](const Child::Say&) { spool::recover_directory(dir.path()); }));
  }
  for (auto& recoverer : recoverers) EXPECT_EQ(recoverer->wait(), 0);
  spool::recover_directory(dir.path());  // a journal that another process had locked
  expect_each_once(read_spool(dir.path()), kJournals * kSpans);
  EXPECT_TRUE(files_in(dir / "live").empty());
}

// The recoverer itself is killed, anywhere. Deterministic in its delays, not in where they hit.
TEST(Recover, KilledHalfWayAndDoneAgain) {
  std::mt19937 random(42);
  for (int round = 0; round < 15; ++round) {
    const TempDir dir;
    constexpr std::int64_t kSpans = 70'000;
    leave_journal(dir.path(), [] {
      for (std::int64_t i = 0; i < kSpans - 1; ++i) {
        testing::close(testing::open("x"));
        if (i % 1000 == 0) record::Journal::instance().grow().ok();
      }
      testing::open("open");
    });
    for (int attempt = 0; attempt < 3; ++attempt) {
      Child recoverer([&](const Child::Say& say) {
        say();
        spool::recover_directory(dir.path());
      });
      ASSERT_TRUE(recoverer.heard());
      ::usleep(random() % 60'000);
      recoverer.kill_and_wait();
    }
    spool::recover_directory(dir.path());
    expect_each_once(read_spool(dir.path()), kSpans);
    EXPECT_TRUE(files_in(dir / "live").empty());
    EXPECT_TRUE(read_spool(dir.path()).spans.size() == std::size_t{kSpans});
  }
}

TEST(Recover, OtherVersionIsLeftWhereItIs) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "live");
  JournalImage image;
  image.header().version = 7;
  image.write(dir / "live/a.journal");
  const model::Recovery recovery = spool::recover_directory(dir.path());
  EXPECT_EQ(recovery.refused, 1u);
  ASSERT_EQ(recovery.problems.size(), 1u);
  EXPECT_NE(recovery.problems[0].find("version 7"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(dir / "live/a.journal"));
}

TEST(Recover, GarbageIsLeftWhereItIsAndTheOthersAreDone) {
  const TempDir dir;
  leave_journal(dir.path(), record_sample, "z");
  std::ofstream(dir / "live/a.journal") << "hello";
  std::ofstream(dir / "live/b.journal") << std::string(3'000'000, '\xFF');
  const model::Recovery recovery = spool::recover_directory(dir.path());
  EXPECT_EQ(recovery.refused, 2u);
  EXPECT_EQ(recovery.journals, 1u);
  EXPECT_EQ(read_spool(dir.path()).spans.size(), 4u);
}

TEST(Recover, RunningProcessIsLeftAlone) {
  const TempDir dir;
  const std::string path = dir / "live/a.journal";
  Child owner([&](const Child::Say& say) {
    testing::attach_journal(path);
    record_sample();
    say();
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(owner.heard());
  EXPECT_EQ(spool::recover_directory(dir.path()).running, 1u);
  EXPECT_TRUE(std::filesystem::exists(path));
  owner.kill_and_wait();
  EXPECT_EQ(spool::recover_directory(dir.path()).journals, 1u);
}

TEST(Recover, UnwritableSpoolKeepsTheJournalForLater) {
  const TempDir dir;
  leave_journal(dir.path(), record_sample);
  std::ofstream(dir / "spool") << "in the way";
  const model::Recovery refused = spool::recover_directory(dir.path());
  EXPECT_EQ(refused.refused, 1u);
  EXPECT_EQ(refused.spans + refused.open_scopes, 0u) << "nothing was moved";
  ASSERT_EQ(refused.problems.size(), 1u);
  std::filesystem::remove(dir / "spool");
  EXPECT_EQ(spool::recover_directory(dir.path()).journals, 1u);
  EXPECT_EQ(names_of(read_spool(dir.path()).spans), kAll);
}

TEST(Recover, FullDiskKeepsTheJournalForLater) {
  TempDir dir;
  if (!dir.mount_small(24 << 20)) GTEST_SKIP() << "cannot mount a small file system here";
  leave_journal(dir.path(), [] {
    for (int i = 0; i < 20'000; ++i) testing::close(testing::open("x"));
  });
  const std::string ballast = testing::fill_up(dir.path());
  EXPECT_EQ(spool::recover_directory(dir.path()).refused, 1u);
  EXPECT_TRUE(files_in(dir / "spool").empty()) << "no half file";
  std::filesystem::remove(ballast);
  EXPECT_EQ(spool::recover_directory(dir.path()).spans, 20'000u);
  expect_each_once(read_spool(dir.path()), 20'000);
}

TEST(Recover, FilesOfProcessesThatDiedWhileStartingAreCleanedAway) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "live");
  std::ofstream(dir / "live/old.journal.tmp") << "x";
  std::ofstream(dir / "live/new.journal.tmp") << "x";
  const utimbuf long_ago{1'000'000'000, 1'000'000'000};
  ASSERT_EQ(::utime((dir / "live/old.journal.tmp").c_str(), &long_ago), 0);
  spool::recover_directory(dir.path());
  EXPECT_EQ(files_in(dir / "live").size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(dir / "live/new.journal.tmp"));
}

}  // namespace
}  // namespace sonde::run
