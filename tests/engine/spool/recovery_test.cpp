// What a dead process left gets into the spool completely and exactly once, also after
// interruptions.
#include "engine/spool/recovery.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

#include "engine/journal/commit.h"
#include "engine/journal/file.h"
#include "engine/spool/directory.h"
#include "tests/engine/support/dead_journal.h"
#include "tests/engine/support/slots.h"

namespace sonde::spool {
namespace {

using testing::Child;
using testing::files_in;
using testing::find_span;
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
void announce_first(const std::string& path) {
  journal::File file;
  ASSERT_TRUE(file.open(path, true).ok());
  for (record::Lane* lane : file.lanes()) {
    testing::announce_slots(*lane, 2);  // the thread's record and one span
  }
  journal::announce(file.header(), {5, 6}, 1234, false);
}

void put_announced_file(const TempDir& dir) {
  ASSERT_TRUE(
      Directory(dir.path(), ~std::uint64_t{0})
          .write(
              1234, {5, 6},
              R"({"schema_version":1,"sdk_version":"x","batch_id":"00000000000000050000000000000006",)"
              R"("created_ns":1234,"spans":[],"marks":[],"snapshots":[]})")
          .ok());
}

const Names kAll = {"first", "second", "inner", "outer"};

TEST(Recovery, MovesEverythingIntoTheSpool) {
  const TempDir dir;
  const std::string path = leave_journal(dir.path(), record_sample);
  const model::Recovery recovery = recover_directory(dir.path());
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

TEST(Recovery, NoFolderIsNoProblem) {
  const TempDir dir;
  const model::Recovery recovery = recover_directory(dir / "never");
  EXPECT_EQ(recovery.journals, 0u);
  EXPECT_TRUE(recovery.problems.empty());
}

TEST(Recovery, BatchAnnouncedAndWrittenIsNotWrittenAgain) {
  const TempDir dir;
  announce_first(leave_journal(dir.path(), record_sample));
  put_announced_file(dir);
  EXPECT_EQ(recover_directory(dir.path()).spans, 1u);
  EXPECT_EQ(names_of(read_spool(dir.path()).spans), (Names{"second", "inner", "outer"}));
}

void expect_each_once(const SpoolContents& spool, std::int64_t spans) {
  std::unordered_map<base::Id, int, base::IdHash> seen;
  for (const model::Span& span : spool.spans) ++seen[span.id];
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(spans));
  EXPECT_EQ(spool.spans.size(), static_cast<std::size_t>(spans)) << "one of them twice";
}

TEST(Recovery, SeveralAtTheSameTime) {
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
        std::make_unique<Child>([&](const Child::Say&) { recover_directory(dir.path()); }));
  }
  for (auto& recoverer : recoverers) EXPECT_EQ(recoverer->wait(), 0);
  recover_directory(dir.path());  // a journal that another process had locked
  expect_each_once(read_spool(dir.path()), kJournals * kSpans);
  EXPECT_TRUE(files_in(dir / "live").empty());
}

// The recoverer itself is killed, anywhere. Deterministic in its delays, not in where they hit.
TEST(Recovery, KilledHalfWayAndDoneAgain) {
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
        recover_directory(dir.path());
      });
      ASSERT_TRUE(recoverer.heard());
      ::usleep(random() % 60'000);
      recoverer.kill_and_wait();
    }
    recover_directory(dir.path());
    expect_each_once(read_spool(dir.path()), kSpans);
    EXPECT_TRUE(files_in(dir / "live").empty());
    EXPECT_TRUE(read_spool(dir.path()).spans.size() == std::size_t{kSpans});
  }
}

TEST(Recovery, UnwritableSpoolKeepsTheJournalForLater) {
  const TempDir dir;
  leave_journal(dir.path(), record_sample);
  std::ofstream(dir / "spool") << "in the way";
  const model::Recovery refused = recover_directory(dir.path());
  EXPECT_EQ(refused.spans + refused.open_scopes, 0u) << "nothing was moved";
  ASSERT_EQ(refused.problems.size(), 1u);
  std::filesystem::remove(dir / "spool");
  EXPECT_EQ(recover_directory(dir.path()).journals, 1u);
  EXPECT_EQ(names_of(read_spool(dir.path()).spans), kAll);
}

TEST(Recovery, FullDiskKeepsTheJournalForLater) {
  TempDir dir;
  if (!dir.mount_small(24 << 20)) GTEST_SKIP() << "cannot mount a small file system here";
  leave_journal(dir.path(), [] {
    for (int i = 0; i < 20'000; ++i) testing::close(testing::open("x"));
  });
  const std::string ballast = testing::fill_up(dir.path());
  EXPECT_EQ(recover_directory(dir.path()).problems.size(), 1u);
  EXPECT_TRUE(files_in(dir / "spool").empty()) << "no half file";
  std::filesystem::remove(ballast);
  EXPECT_EQ(recover_directory(dir.path()).spans, 20'000u);
  expect_each_once(read_spool(dir.path()), 20'000);
}

}  // namespace
}  // namespace sonde::spool
