// What a dead process left arrives completely and exactly once, whatever happens to the process
// that moves it and to the destination. tests/engine/spool has the same with files.
#include "engine/journal/recover.h"

#include <sys/stat.h>
#include <utime.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/journal/commit.h"
#include "engine/journal/file.h"
#include "tests/engine/journal/memory_destination.h"
#include "tests/engine/support/dead_journal.h"
#include "tests/engine/support/journal_image.h"
#include "tests/engine/support/refuse.h"
#include "tests/engine/support/slots.h"

namespace sonde::journal {
namespace {

using testing::Child;
using testing::files_in;
using testing::find_span;
using testing::JournalImage;
using testing::leave_journal;
using testing::MemoryDestination;
using testing::names_of;
using testing::recover_into;
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
  File file;
  ASSERT_TRUE(file.open(path, true).ok());
  for (record::Lane* lane : file.lanes()) {
    testing::announce_slots(*lane, 2);  // the thread's record and one span
  }
  announce(file.header(), {5, 6}, 1234, false);
  file.header().pending.store(pending);
}

// That batch.
void let_it_arrive(MemoryDestination& destination) { destination.arrive(1234, {5, 6}); }

const Names kAll = {"first", "second", "inner", "outer"};

TEST(Recover, MovesEverything) {
  const TempDir dir;
  MemoryDestination destination;
  const std::string path = leave_journal(dir.path(), record_sample);
  const Recovery recovery = recover_into(destination, dir.path());
  EXPECT_EQ(recovery.journals, 1u);
  EXPECT_EQ(recovery.spans, 2u);
  EXPECT_EQ(recovery.marks, 1u);
  EXPECT_EQ(recovery.open_scopes, 2u);
  EXPECT_EQ(destination.batches(), 1u);
  EXPECT_EQ(recovery.damaged, 0u);
  EXPECT_TRUE(recovery.problems.empty());
  EXPECT_FALSE(std::filesystem::exists(path));

  EXPECT_EQ(names_of(destination.all.spans), kAll);
  const model::Span& inner = *find_span(destination.all.spans, "inner");
  const model::Span& outer = *find_span(destination.all.spans, "outer");
  EXPECT_EQ(inner.attrs, R"("k":1,"sonde.closed_by":"death")");
  EXPECT_EQ(outer.attrs, R"("sonde.closed_by":"death")");
  EXPECT_EQ(outer.index, 3);
  EXPECT_EQ(inner.parent_id, outer.id);
  EXPECT_EQ(inner.end_ns, outer.end_ns);
  EXPECT_GE(inner.end_ns, destination.all.marks.at(0).ts_ns) << "the last sign of life";
  EXPECT_EQ(destination.all.marks.at(0).span_id, inner.id);
  ASSERT_EQ(inner.mark_id_count, 1u);
  EXPECT_EQ(destination.all.mark_ids.at(inner.first_mark_id), destination.all.marks.at(0).id);
}

TEST(Recover, SecondTimeDoesNothing) {
  const TempDir dir;
  MemoryDestination destination;
  leave_journal(dir.path(), record_sample);
  recover_into(destination, dir.path());
  const Recovery again = recover_into(destination, dir.path());
  EXPECT_EQ(again.journals + again.spans + again.open_scopes, 0u);
  EXPECT_EQ(destination.all.spans.size(), 4u);
}

TEST(Recover, NoFolderIsNoProblem) {
  const TempDir dir;
  MemoryDestination destination;
  const Recovery recovery = recover_into(destination, dir / "never");
  EXPECT_EQ(recovery.journals, 0u);
  EXPECT_TRUE(recovery.problems.empty());
}

TEST(Recover, SeveralJournalsOfSeveralRanks) {
  const TempDir dir;
  MemoryDestination destination;
  for (int i = 0; i < 3; ++i) leave_journal(dir.path(), record_sample, "rank" + std::to_string(i));
  EXPECT_EQ(recover_into(destination, dir.path()).journals, 3u);
  EXPECT_EQ(destination.all.spans.size(), 12u);
}

TEST(Recover, CleanJournalIsOnlyRemoved) {
  const TempDir dir;
  MemoryDestination destination;
  const std::string path = leave_journal(dir.path(), [] {
    record_sample();
    testing::own_header().clean = 1;
  });
  EXPECT_EQ(recover_into(destination, dir.path()).spans, 0u);
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(destination.batches(), 0u);
}

// Every point at which the owner, or an earlier recovery, can have died.
TEST(Recover, BatchAnnouncedAndNotWrittenIsWrittenNow) {
  const TempDir dir;
  MemoryDestination destination;
  announce_first(leave_journal(dir.path(), record_sample), kBatch);
  EXPECT_EQ(recover_into(destination, dir.path()).spans, 2u);
  EXPECT_EQ(names_of(destination.all.spans), kAll);
}

TEST(Recover, BatchAnnouncedAndWrittenIsNotWrittenAgain) {
  const TempDir dir;
  MemoryDestination destination;
  announce_first(leave_journal(dir.path(), record_sample), kBatch);
  let_it_arrive(destination);
  EXPECT_EQ(recover_into(destination, dir.path()).spans, 1u);
  EXPECT_EQ(names_of(destination.all.spans), (Names{"second", "inner", "outer"}));
}

TEST(Recover, LastBatchAnnouncedAndNotWrittenIsWrittenNow) {
  const TempDir dir;
  MemoryDestination destination;
  announce_first(leave_journal(dir.path(), record_sample), kLastBatch);
  recover_into(destination, dir.path());
  EXPECT_EQ(names_of(destination.all.spans), kAll);
}

TEST(Recover, LastBatchWrittenMeansOnlyTheJournalIsLeft) {
  const TempDir dir;
  MemoryDestination destination;
  const std::string path = leave_journal(dir.path(), record_sample);
  announce_first(path, kLastBatch);
  let_it_arrive(destination);
  const Recovery recovery = recover_into(destination, dir.path());
  EXPECT_EQ(recovery.spans + recovery.open_scopes, 0u);
  EXPECT_EQ(recovery.journals, 1u);
  EXPECT_TRUE(destination.all.spans.empty());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Recover, TailsBeingCopiedWithoutABatchAreCopiedToTheEnd) {
  const TempDir dir;
  MemoryDestination destination;
  announce_first(leave_journal(dir.path(), record_sample), kTailsOnly);
  recover_into(destination, dir.path());
  EXPECT_EQ(names_of(destination.all.spans), (Names{"second", "inner", "outer"}));
}

// A tail is three words. Killed between them, it points into a block that it does not belong to.
TEST(Recover, TailCopiedByHalfIsRepaired) {
  const TempDir dir;
  MemoryDestination destination;
  constexpr int kSpans = 2000;
  const std::string path = leave_journal(dir.path(), [] {
    for (int i = 0; i < kSpans; ++i)
      testing::close(testing::open("many", {.index = i, .flags = record::kHasIndex}));
  });
  File file;
  ASSERT_TRUE(file.open(path, true).ok());
  RingReader reader(file.view());
  record::Lane* lane = file.lanes().at(0);
  record::RingTail cursor = testing::tail_of(*lane);
  model::Batch moved;
  reader.read(*lane, cursor, 1500, moved, nullptr);
  testing::copy_tail_by_half(*lane, cursor);
  announce(file.header(), {5, 6}, 1234, false);
  let_it_arrive(destination);
  const Recovery recovery = recover_into(destination, dir.path());
  EXPECT_EQ(recovery.spans, static_cast<std::uint64_t>(kSpans - 1500));
  ASSERT_EQ(destination.all.spans.size(), static_cast<std::size_t>(kSpans - 1500));
  EXPECT_EQ(destination.all.spans.front().index, 1500);
}

TEST(Recover, LongJournalBecomesSeveralBatches) {
  const TempDir dir;
  MemoryDestination destination;
  constexpr std::int64_t kSpans = 50'000;
  leave_journal(dir.path(), [] {
    for (std::int64_t i = 0; i < kSpans; ++i) {
      testing::close(testing::open("many", {.index = i, .flags = record::kHasIndex}));
      if (i % 1000 == 0) record::Journal::instance().grow().ok();
    }
  });
  const Recovery recovery = recover_into(destination, dir.path());
  EXPECT_EQ(recovery.spans, std::uint64_t{kSpans});
  EXPECT_GT(destination.batches(), 1u);
  ASSERT_EQ(destination.all.spans.size(), std::size_t{kSpans});
  for (std::int64_t i = 0; i < kSpans; ++i)
    ASSERT_EQ(destination.all.spans[static_cast<std::size_t>(i)].index, i);
}

TEST(Recover, ManyLanesDoNotMakeOneHugeBatch) {
  const TempDir dir;
  MemoryDestination destination;
  leave_journal(dir.path(), [] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 6000; ++i) testing::close(testing::open("x"));
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  recover_into(destination, dir.path());
  EXPECT_EQ(destination.all.spans.size(), 48'000u);
  EXPECT_LE(destination.largest, 33'000u);
}

TEST(Recover, WithoutLocksAJournalIsRecoveredOnce) {
  const TempDir dir;
  const std::string path = leave_journal(dir.path(), record_sample);
  testing::in_child([&] {
    if (!testing::refuse_locks(ENOSYS)) GTEST_SKIP() << "cannot filter calls here";
    MemoryDestination destination;
    destination.before = [] { return base::Status(ENOSPC, "full"); };
    EXPECT_EQ(recover_into(destination, dir.path()).problems.size(), 1u);
    EXPECT_TRUE(std::filesystem::exists(path)) << "the next one may try";
    destination.before = [] { return base::Status(); };
    EXPECT_EQ(recover_into(destination, dir.path()).journals, 1u);
    EXPECT_EQ(destination.all.spans.size(), 4u);
    EXPECT_TRUE(testing::files_in(dir / "live").empty());
  });
}

TEST(Recover, OtherVersionIsLeftWhereItIs) {
  const TempDir dir;
  MemoryDestination destination;
  std::filesystem::create_directories(dir / "live");
  JournalImage image;
  image.header().version = 7;
  image.write(dir / "live/a.journal");
  const Recovery recovery = recover_into(destination, dir.path());
  ASSERT_EQ(recovery.problems.size(), 1u);
  EXPECT_NE(recovery.problems[0].find("version 7"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(dir / "live/a.journal"));
}

TEST(Recover, GarbageIsLeftWhereItIsAndTheOthersAreDone) {
  const TempDir dir;
  MemoryDestination destination;
  leave_journal(dir.path(), record_sample, "z");
  std::ofstream(dir / "live/a.journal") << "hello";
  std::ofstream(dir / "live/b.journal") << std::string(3'000'000, '\xFF');
  const Recovery recovery = recover_into(destination, dir.path());
  EXPECT_EQ(recovery.problems.size(), 2u);
  EXPECT_EQ(recovery.journals, 1u);
  EXPECT_EQ(destination.all.spans.size(), 4u);
}

// The file could not grow, so the newest blocks were in memory only.
TEST(Recover, RecordsThatWereInMemoryOnlyAreCounted) {
  const TempDir dir;
  MemoryDestination destination;
  constexpr std::size_t kSpans = 140'000;  // more than the first 256 blocks hold
  leave_journal(dir.path(), [] {
    for (std::size_t i = 0; i < kSpans; ++i) testing::close(testing::open("x"));
    testing::open("open");
  });
  const Recovery recovery = recover_into(destination, dir.path());
  EXPECT_EQ(recovery.damaged, 1u) << "how many records the other blocks had is not known";
  EXPECT_GT(recovery.spans, 120'000u);
  EXPECT_LT(recovery.spans, kSpans);
  EXPECT_EQ(destination.all.spans.size(), recovery.spans + 1);
  EXPECT_EQ(recovery.open_scopes, 1u);
  EXPECT_TRUE(recovery.problems.empty());
  EXPECT_TRUE(files_in(dir / "live").empty()) << "another reader would not find more";
}

// Ten spans in lane 0, whose ring goes on in a block that the file does not have.
void break_chain(JournalImage& image) {
  const std::uint32_t name = image.name("work");
  image.ring(2, 0);
  for (std::uint32_t i = 0; i < 10; ++i) image.put(2, i, JournalImage::span(i + 1, name));
  image.link(2, 4000, 10);
  image.lane(0).first_block.store(2);
  image.lane(0).head.store(30);
}

void write_broken_chain(const std::string& path) {
  JournalImage image;
  break_chain(image);
  image.write(path);
}

// Lane 1 has `blocks` full blocks of spans, from block 3 on.
void fill_other_lane(JournalImage& image, std::uint32_t blocks) {
  constexpr std::uint32_t kSlots = record::kSlotsPerBlock;
  const std::uint32_t name = image.name("other");
  for (std::uint32_t i = 0; i < blocks; ++i) {
    image.ring(3 + i, i * kSlots);
    if (i > 0) image.link(2 + i, 3 + i, i * kSlots);
    for (std::uint32_t k = 0; k < kSlots; ++k)
      image.put(3 + i, k, JournalImage::span(1000 + i * kSlots + k, name));
  }
  image.lane(1).first_block.store(3);
  image.lane(1).head.store(blocks * kSlots);
}

TEST(Recover, DamageOfSeveralJournalsIsAddedUp) {
  const TempDir dir;
  MemoryDestination destination;
  leave_journal(dir.path(), record_sample);
  write_broken_chain(dir / "live/a.journal");
  write_broken_chain(dir / "live/b.journal");
  const Recovery recovery = recover_into(destination, dir.path());
  EXPECT_EQ(recovery.damaged, 2u);
  EXPECT_EQ(recovery.spans, 22u);
  EXPECT_EQ(recovery.journals, 3u);
}

TEST(Recover, DamageInTheFirstOfSeveralBatchesIsCountedOnce) {
  const TempDir dir;
  MemoryDestination destination;
  std::filesystem::create_directories(dir / "live");
  JournalImage image(160);
  break_chain(image);
  fill_other_lane(image, 150);
  image.write(dir / "live/a.journal");
  const Recovery recovery = recover_into(destination, dir.path());
  EXPECT_EQ(destination.batches(), 3u);
  EXPECT_EQ(recovery.spans, 10u + std::uint64_t{150} * record::kSlotsPerBlock);
  EXPECT_EQ(recovery.damaged, 1u);
}

TEST(Recover, DamageIsCountedOnceTheRestHasArrived) {
  const TempDir dir;
  MemoryDestination destination;
  std::filesystem::create_directories(dir / "live");
  write_broken_chain(dir / "live/a.journal");
  destination.before = [] { return base::Status(ENOSPC, "full"); };
  EXPECT_EQ(recover_into(destination, dir.path()).damaged, 0u) << "the journal is still there";
  destination.before = [] { return base::Status(); };
  EXPECT_EQ(recover_into(destination, dir.path()).damaged, 1u);
  EXPECT_EQ(recover_into(destination, dir.path()).damaged, 0u);
}

TEST(Recover, RunningProcessIsLeftAlone) {
  const TempDir dir;
  MemoryDestination destination;
  const std::string path = dir / "live/a.journal";
  Child owner([&](const Child::Say& say) {
    testing::attach_journal(path);
    record_sample();
    say();
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(owner.heard());
  const Recovery recovery = recover_into(destination, dir.path());
  EXPECT_EQ(recovery.journals, 0u);
  EXPECT_TRUE(recovery.problems.empty());
  EXPECT_TRUE(std::filesystem::exists(path));
  owner.kill_and_wait();
  EXPECT_EQ(recover_into(destination, dir.path()).journals, 1u);
}

TEST(Recover, FilesOfProcessesThatDiedWhileStartingAreCleanedAway) {
  const TempDir dir;
  MemoryDestination destination;
  std::filesystem::create_directories(dir / "live");
  std::ofstream(dir / "live/old.journal.tmp") << "x";
  std::ofstream(dir / "live/new.journal.tmp") << "x";
  const utimbuf long_ago{1'000'000'000, 1'000'000'000};
  ASSERT_EQ(::utime((dir / "live/old.journal.tmp").c_str(), &long_ago), 0);
  recover_into(destination, dir.path());
  EXPECT_EQ(files_in(dir / "live").size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(dir / "live/new.journal.tmp"));
}

}  // namespace
}  // namespace sonde::journal
