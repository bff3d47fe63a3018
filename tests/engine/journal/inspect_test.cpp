// What can be read out of a journal from outside, while its owner lives and after it died.
#include "engine/journal/inspect.h"

#include <fcntl.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/file.h"
#include "engine/journal/commit.h"
#include "engine/journal/file.h"
#include "tests/engine/journal/memory_destination.h"
#include "tests/engine/support/dead_journal.h"
#include "tests/engine/support/journal_image.h"
#include "tests/engine/support/slots.h"

namespace sonde::journal {
namespace {

using testing::Child;
using testing::JournalImage;
using testing::leave_journal;
using testing::MemoryDestination;
using testing::names_of;
using testing::TempDir;
using Names = std::vector<std::string>;

model::Process inspect(const std::string& path, const MemoryDestination& destination = {}) {
  model::Process report;
  const base::Status status = journal::inspect(path, destination, report);
  EXPECT_TRUE(status.ok()) << status.text();
  return report;
}

TEST(Inspect, DeadProcessTellsWhatWasOpenAndWhatWasClosed) {
  const TempDir dir;
  const std::string path = leave_journal(dir.path(), [] {
    testing::close(testing::open("done"));
    testing::open("epoch", {.index = 2, .flags = record::kHasIndex, .attrs = R"("lr":0.1)"});
    testing::mark("loss", 0.25);
    testing::open("step", {.flags = record::kHasDataLoad, .aux = 77});
    std::thread([] {
      testing::open("on a thread");
      ::usleep(1000);
      testing::close(testing::open("short"));
      // The thread must not end: leave it hanging until the kill.
      static std::atomic<int> never{0};
      std::thread([] {
        testing::open("worker");
        never.store(1);
        testing::sleep_for_ever();
      }).detach();
      while (never.load() == 0) ::usleep(100);
    }).join();
  });
  const model::Process report = inspect(path);
  EXPECT_EQ(report.state.fate, model::Fate::kDead);
  EXPECT_EQ(report.state.rank, 1);
  EXPECT_EQ(report.state.damaged, 0u);
  EXPECT_FALSE(report.state.host.empty());
  EXPECT_EQ(names_of(report.records.spans), (Names{"done", "short", "on a thread"}));
  ASSERT_EQ(report.records.marks.size(), 1u);
  ASSERT_EQ(report.state.open.size(), 3u);
  EXPECT_EQ(report.state.open[0].span.name, "epoch");
  EXPECT_EQ(report.state.open[0].span.index, 2);
  EXPECT_EQ(report.state.open[0].span.attrs, R"("lr":0.1)");
  EXPECT_TRUE(report.state.open[0].span.open());
  EXPECT_EQ(report.records.marks[0].span_id, report.state.open[0].span.id);
  EXPECT_EQ(report.state.open[1].span.name, "step");
  EXPECT_EQ(report.state.open[1].span.attrs, R"("data_load_ns":77)");
  EXPECT_EQ(report.state.open[1].span.parent_id, report.state.open[0].span.id);
  EXPECT_EQ(report.state.open[2].span.name, "worker");
  EXPECT_NE(report.state.open[2].span.thread_id, report.state.open[0].span.thread_id);
  EXPECT_NE(report.state.open[2].os_thread_id, report.state.open[0].os_thread_id);
  EXPECT_GE(report.state.last_sign_ns, report.state.open[2].span.start_ns);
  EXPECT_GE(report.state.last_sign_ns, report.state.started_ns);
}

TEST(Inspect, ReportOutlivesTheFile) {
  const TempDir dir;
  const std::string path = leave_journal(dir.path(), [] {
    testing::close(testing::open("span", {.static_attrs = record::intern(R"("fixed":1)")}));
    testing::mark("mark", 1);
    testing::open("open");
  });
  const model::Process report = inspect(path);
  std::filesystem::remove(path);
  EXPECT_EQ(report.records.spans.at(0).name, "span");
  EXPECT_EQ(report.records.spans.at(0).attrs, R"("fixed":1)");
  EXPECT_EQ(report.records.marks.at(0).name, "mark");
  EXPECT_EQ(report.state.open.at(0).span.name, "open");
}

TEST(Inspect, RecordsOfAllThreadsComeInTheOrderTheyEnded) {
  const TempDir dir;
  const std::string path = leave_journal(dir.path(), [] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 50; ++i) {
          testing::close(testing::open("x"));
          std::this_thread::yield();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  const model::Process report = inspect(path);
  ASSERT_EQ(report.records.spans.size(), 200u);
  for (std::size_t i = 1; i < 200; ++i)
    EXPECT_GE(report.records.spans[i].end_ns, report.records.spans[i - 1].end_ns);
}

TEST(Inspect, TasksAreTold) {
  const TempDir dir;
  const std::string path = leave_journal(dir.path(), [] {
    record::Lane* task = record::take_task_lane(0);
    record::open_scope(*record::this_thread(), *task, {.name = record::intern("in a task")});
  });
  const model::Process report = inspect(path);
  ASSERT_EQ(report.state.open.size(), 1u);
  EXPECT_TRUE(report.state.open[0].task);
}

// Killed between the two stores of a close: the record is there, the stack still says open.
TEST(Inspect, ScopeWhoseRecordIsThereIsNotOpen) {
  const TempDir dir;
  const std::string path = leave_journal(dir.path(), [] {
    const record::ScopeHandle scope = testing::open("half closed");
    testing::close(scope);
    testing::leave_on_stack(scope);
  });
  const model::Process report = inspect(path);
  EXPECT_EQ(names_of(report.records.spans), (Names{"half closed"}));
  EXPECT_TRUE(report.state.open.empty());
}

// Killed one store earlier: the slot says where the record will be, but it was never published.
TEST(Inspect, ScopeWhoseRecordIsNotThereIsOpen) {
  const TempDir dir;
  const std::string path = leave_journal(dir.path(), [] {
    const record::ScopeHandle scope = testing::open("almost closed");
    testing::say_record_comes(scope);
  });
  const model::Process report = inspect(path);
  EXPECT_TRUE(report.records.spans.empty());
  ASSERT_EQ(report.state.open.size(), 1u);
}

// The same for a close from another thread, which raises its flag before it has the record written.
TEST(Inspect, FlaggedScopeWithoutARecordIsOpen) {
  const TempDir dir;
  const std::string path = leave_journal(dir.path(), [] {
    const record::ScopeHandle scope = testing::open("flagged");
    testing::flag_as_closed(scope);
  });
  EXPECT_EQ(inspect(path).state.open.size(), 1u);
}

TEST(Inspect, ScopeThatLostItsRecordIsOver) {
  const TempDir dir;
  const std::string path = leave_journal(dir.path(), [] {
    const record::ScopeHandle scope = testing::open("no room");
    testing::say_record_was_lost(scope);
  });
  EXPECT_TRUE(inspect(path).state.open.empty());
}

// The batch was written, its owner died before it could say so: these records are there.
TEST(Inspect, AnnouncedBatchThatHasArrivedIsNotShownAgain) {
  const TempDir dir;
  const std::string path = leave_journal(dir.path(), [] {
    testing::close(testing::open("first"));
    testing::announce_all(record::Journal::instance().lane(0));
    journal::announce(testing::own_header(), {1, 2}, 77, false);
    testing::close(testing::open("second"));
  });
  EXPECT_EQ(names_of(inspect(path).records.spans), (Names{"first", "second"}))
      << "no such batch: never written";
  MemoryDestination destination;
  destination.arrive(77, {1, 2});
  EXPECT_EQ(names_of(inspect(path, destination).records.spans), (Names{"second"}));
}

// A destination whose answer comes while the owner goes on.
class WhileTheOwnerGoesOn : public MemoryDestination {
 public:
  explicit WhileTheOwnerGoesOn(std::function<void()> step) : step_(std::move(step)) {}
  bool contains(std::int64_t created_ns, const base::Id& batch_id) const override {
    const bool there = MemoryDestination::contains(created_ns, batch_id);
    if (!std::exchange(went_on_, true)) step_();
    return there;
  }

 private:
  std::function<void()> step_;
  mutable bool went_on_ = false;
};

// The owner commits one batch and announces the next while the first is being looked for. The next
// one is in no file yet, so its spans have to come from the journal.
TEST(Inspect, ABatchThatIsAnnouncedMeanwhileIsRead) {
  const TempDir dir;
  constexpr std::int64_t kFirst = 77, kNext = 78;
  const std::string path = leave_journal(dir.path(), [] {
    testing::close(testing::open("first"));
    std::thread([] { testing::close(testing::open("second")); }).join();
    for (std::uint32_t i = 0; i < 2; ++i)
      testing::announce_all(record::Journal::instance().lane(i));
    journal::announce(testing::own_header(), {1, kFirst}, kFirst, false);
    testing::close(testing::open("third"));
    std::thread([] { testing::close(testing::open("fourth")); }).join();
  });
  File owner;
  ASSERT_TRUE(owner.open(path, true).ok());
  WhileTheOwnerGoesOn destination([&] {
    commit_tails(owner.header(), owner.lanes());
    for (record::Lane* lane : owner.lanes()) testing::announce_all(*lane);
    journal::announce(owner.header(), {1, kNext}, kNext, false);
  });
  destination.arrive(kFirst, {1, kFirst});
  const model::Process report = inspect(path, destination);
  EXPECT_EQ(names_of(report.records.spans), (Names{"third", "fourth"}));
}

// A tail is three words. One of which only the position has been stored leads nowhere.
TEST(Inspect, ATailThatIsBeingStoredDoesNoDamage) {
  const TempDir dir;
  const std::string path = leave_journal(dir.path(), [] {
    for (int i = 0; i < 5000; ++i) testing::close(testing::open("many"));
    record::Lane& lane = record::Journal::instance().lane(0);
    lane.pending_tail = {lane.head.load(), lane.thread_id, lane.block, 0};
    journal::announce(testing::own_header(), {1, 2}, 77, false);
    testing::close(testing::open("last"));
  });
  File owner;
  ASSERT_TRUE(owner.open(path, true).ok());
  record::Lane& lane = *owner.lanes().at(0);
  WhileTheOwnerGoesOn* self = nullptr;
  WhileTheOwnerGoesOn destination([&] {
    testing::copy_tail_by_half(lane, lane.pending_tail);
    self->arrive(77, {1, 2});
  });
  self = &destination;
  const model::Process report = inspect(path, destination);
  EXPECT_EQ(report.state.damaged, 0u);
  EXPECT_EQ(names_of(report.records.spans), (Names{"last"}));
}

TEST(Inspect, NeverWritesAndNeverLocksTheOwnerOut) {
  const TempDir dir;
  const std::string path = dir / "live/a.journal";
  Child owner([&](const Child::Say& say) {
    testing::attach_journal(path);
    testing::open("open");
    say();
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(owner.heard());
  const std::string before = testing::file_text(path);
  const model::Process report = inspect(path);
  EXPECT_EQ(report.state.fate, model::Fate::kRunning);
  EXPECT_EQ(report.state.pid, owner.pid());
  EXPECT_EQ(testing::file_text(path), before);
  MemoryDestination destination;
  EXPECT_EQ(testing::recover_into(destination, dir.path()).journals, 0u);
  EXPECT_EQ(testing::file_text(path), before);
}

// Read over and over while the owner records and frees blocks: never a crash, never a span that
// never was.
TEST(Inspect, RunningProcessUnderLoad) {
  const TempDir dir;
  const std::string path = dir / "live/a.journal";
  Child owner([&](const Child::Say& say) {
    testing::attach_journal(path);
    testing::RingTap tap;
    say();
    for (std::int64_t i = 0;; ++i) {
      const record::ScopeHandle outer = testing::open("outer");
      testing::close(
          testing::open("inner", {.index = i, .flags = record::kHasIndex, .attrs = R"("k":1)"}));
      testing::close(outer);
      if (i % 2000 == 0) {
        model::Batch batch;
        std::vector<std::uint32_t> finished;
        tap.read(batch, &finished);
        testing::move_tail_to_end(record::Journal::instance().lane(0));
        for (const std::uint32_t block : finished) record::Journal::instance().free_block(block);
      }
    }
  });
  ASSERT_TRUE(owner.heard());
  std::size_t seen = 0;
  const std::uint64_t until = base::monotonic_ns() + 2'000'000'000;
  for (int i = 0; i < 200 && base::monotonic_ns() < until; ++i) {
    model::Process report;
    ASSERT_TRUE(journal::inspect(path, MemoryDestination(), report).ok());
    EXPECT_EQ(report.state.fate, model::Fate::kRunning);
    for (const model::OpenScope& open : report.state.open)
      EXPECT_TRUE(open.span.name == "outer" || open.span.name == "inner") << open.span.name;
    seen += report.records.spans.size();
  }
  EXPECT_GT(seen, 0u);
}

TEST(Inspect, OtherVersionsAreRefusedWithAWordOnWhatToDo) {
  const TempDir dir;
  JournalImage image;
  image.header().version = 99;
  image.write(dir / "a.journal");
  model::Process report;
  const base::Status status = journal::inspect(dir / "a.journal", MemoryDestination(), report);
  EXPECT_EQ(status.error(), EPROTO);
  EXPECT_NE(status.text().find("version 99"), std::string::npos) << status.text();
  EXPECT_TRUE(status.text().ends_with("read it with the version of sonde that wrote it"))
      << status.text();
}

TEST(Inspect, WhatIsNoJournalIsRefused) {
  const TempDir dir;
  const MemoryDestination nowhere;
  model::Process report;
  EXPECT_EQ(journal::inspect(dir / "none.journal", nowhere, report).error(), ENOENT);
  std::ofstream(dir / "empty.journal");
  EXPECT_EQ(journal::inspect(dir / "empty.journal", nowhere, report).error(), EPROTO);
  std::ofstream(dir / "text.journal") << std::string(2'000'000, 'x');
  EXPECT_EQ(journal::inspect(dir / "text.journal", nowhere, report).error(), EPROTO);
  std::filesystem::create_directory(dir / "folder.journal");
  EXPECT_FALSE(journal::inspect(dir / "folder.journal", nowhere, report).ok());
}

TEST(Inspect, ShortenedFileIsReadAsFarAsItGoes) {
  const TempDir dir;
  const std::string path = leave_journal(dir.path(), [] {
    for (int i = 0; i < 5000; ++i) testing::close(testing::open("many"));
    testing::open("open");
  });
  std::filesystem::resize_file(path, record::kBlocksOffset + 4 * record::kBlockBytes + 100);
  const model::Process report = inspect(path);
  EXPECT_GT(report.records.spans.size(), 0u);
  EXPECT_LT(report.records.spans.size(), 5000u);
  EXPECT_GT(report.state.damaged, 0u);
  EXPECT_EQ(report.state.open.size(), 1u);
  std::filesystem::resize_file(path, record::kBlocksOffset);
  EXPECT_TRUE(inspect(path).state.open.empty());
}

TEST(Inspect, DamagedStackIsSurvived) {
  const TempDir dir;
  JournalImage image;
  testing::damage_stack(image.lane(0));
  image.header().session.sequence = 1;
  image.header().session.name_length = image.header().session.attrs_length = 0xFFFF;
  std::memset(image.header().host, 'h', sizeof image.header().host);
  image.write(dir / "a.journal");
  const model::Process report = inspect(dir / "a.journal");
  EXPECT_EQ(report.state.open.size(), 65u);
  EXPECT_TRUE(report.state.open[0].session);
}

}  // namespace
}  // namespace sonde::journal
