// Following running processes: what one look brings, as values.
#include "engine/run/follower.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/record/root.h"
#include "engine/run/directory_source.h"
#include "engine/spool/recovery.h"
#include "tests/engine/run/memory_source.h"
#include "tests/engine/support/dead_journal.h"
#include "tests/engine/support/spans.h"

namespace sonde::run {
namespace {

using testing::Child;
using testing::MemorySource;
using testing::on_rank;
using testing::span;
using testing::TempDir;
using Kind = model::ProcessEvent::Kind;
using Names = std::vector<std::string>;

Names names_of(const model::Look& look) {
  Names names;
  for (const model::LiveSpan& each : look.spans) names.emplace_back(each.span.name);
  return names;
}

DirectorySource source_in(const TempDir& dir) {
  Location place;
  EXPECT_TRUE(locate(dir.path(), place).ok());
  return DirectorySource(std::move(place));
}

TEST(Follower, SpansWithMarksAndTheLifeOfAChild) {
  const TempDir dir;
  Child child([&](const Child::Say& say) {
    testing::attach_journal(dir / "live/a.journal");
    const record::ScopeHandle epoch = testing::open("epoch", {.attrs = R"("lr":0.5)"});
    testing::mark("loss", 0.25);
    testing::close(testing::open("part"));
    say();
    while (!std::filesystem::exists(dir / "go")) ::usleep(1000);
    testing::close(epoch);
    say();
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(child.heard());
  DirectorySource source = source_in(dir);
  Follower follower(source, {10, {}});

  const model::Look first = follower.look();
  ASSERT_EQ(first.began.size(), 1u);
  EXPECT_EQ(first.began[0].kind, Kind::kBegan);
  EXPECT_EQ(first.began[0].pid, child.pid());
  EXPECT_EQ(first.began[0].rank, 1);
  EXPECT_EQ(names_of(first), (Names{"part"}));
  EXPECT_TRUE(first.spans[0].place.in_epoch);
  ASSERT_EQ(first.marks.size(), 1u) << "its span is still open";
  EXPECT_EQ(first.marks[0].name, "loss");
  EXPECT_EQ(first.marks[0].real, 0.25);
  ASSERT_EQ(first.processes.size(), 1u);
  EXPECT_EQ(first.processes[0].pid, child.pid());
  ASSERT_EQ(first.processes[0].open.size(), 1u);
  EXPECT_TRUE(first.ended.empty());
  EXPECT_EQ(follower.running(), 1u);

  const model::Look nothing_new = follower.look();
  EXPECT_TRUE(nothing_new.began.empty() && nothing_new.spans.empty() && nothing_new.ended.empty());

  std::ofstream(dir / "go") << "go";
  ASSERT_TRUE(child.heard());
  const model::Look second = follower.look();
  EXPECT_EQ(names_of(second), (Names{"epoch"}));
  EXPECT_EQ(second.spans[0].span.attrs, R"("lr":0.5)");
  ASSERT_EQ(second.spans[0].marks.size(), 1u) << "it was seen two looks before its span";
  EXPECT_EQ(second.spans[0].marks[0].name, "loss");
  EXPECT_EQ(second.spans[0].marks[0].real, 0.25);
  EXPECT_TRUE(nothing_new.marks.empty() && second.marks.empty()) << "each comes once";
  ASSERT_EQ(second.processes.size(), 1u);
  EXPECT_TRUE(second.processes[0].open.empty());
  EXPECT_EQ(first.processes[0].open[0].span.name, "epoch") << "a look keeps its own text";

  child.kill_and_wait();
  const model::Look last = follower.look();
  ASSERT_EQ(last.ended.size(), 1u);
  EXPECT_EQ(last.ended[0].kind, Kind::kDied);
  EXPECT_EQ(last.ended[0].pid, first.began[0].pid);
  ASSERT_EQ(last.processes.size(), 1u);
  EXPECT_EQ(last.processes[0].fate, model::Fate::kDead);
  EXPECT_EQ(follower.running(), 0u);
  EXPECT_TRUE(follower.look().ended.empty()) << "told once";
  EXPECT_EQ(names_of(first), (Names{"part"})) << "a look keeps its own text";
}

// What is still in the journal is read before what is stored.
TEST(Follower, MarksAreInOrderOfTimeAndTheNewestAreKept) {
  MemorySource source;
  const auto put = [](model::Batch& batch, std::uint64_t first, std::uint64_t end) {
    for (std::uint64_t i = first; i < end; ++i) {
      batch.marks.push_back(testing::mark(i, 7, "i", static_cast<double>(i)));
      batch.marks.back().ts_ns = static_cast<std::int64_t>(i);
    }
  };
  std::uint64_t stored = 0, recorded = 80;
  source.start("p", [&](Process& out) {
    out.state.pid = 1;
    out.state.fate = model::Fate::kRunning;
    put(out.records, stored, recorded);
  });
  Follower follower(source, {10, {}});
  stored = 50;
  model::Batch older;
  put(older, 0, stored);
  source.store_unlisted("a", testing::json_of(older), 1);
  follower.look();
  model::Batch closing;
  recorded = 100;
  put(closing, 80, recorded);
  closing.spans = {span(7, 0, "x", 0, 200)};
  stored = recorded;
  source.store_unlisted("b", testing::json_of(closing), 2);
  const model::Look look = follower.look();
  ASSERT_EQ(look.spans.size(), 1u);
  const std::vector<model::Mark>& marks = look.spans[0].marks;
  ASSERT_EQ(marks.size(), 64u);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(marks[i].real, static_cast<double>(i + 36));
  EXPECT_EQ(look.spans[0].more_marks, 36u);
}

// The next session in the directory recovers the journal before the follower looks again.
TEST(Follower, OneThatWasKilledAndRecoveredBetweenTwoLooksHasDied) {
  const TempDir dir;
  Child child([&](const Child::Say& say) {
    testing::attach_journal(dir / "live/a.journal");
    record::open_root(record::intern("acme.session"), R"("pid":1)");
    say();
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(child.heard());
  DirectorySource source = source_in(dir);
  Follower follower(source, {10, {}});
  ASSERT_EQ(follower.look().began.size(), 1u);
  const pid_t pid = child.pid();
  child.kill_and_wait();
  ASSERT_EQ(spool::recover_directory(dir.path()).journals, 1u);
  const model::Look last = follower.look();
  ASSERT_EQ(last.ended.size(), 1u);
  EXPECT_EQ(last.ended[0].kind, Kind::kDied);
  EXPECT_EQ(last.ended[0].pid, pid);
  EXPECT_EQ(last.ended[0].api, "acme");
  EXPECT_EQ(follower.running(), 0u);
  EXPECT_TRUE(follower.look().ended.empty()) << "told once";
}

TEST(Follower, OneThatWasDeadBeforeIsTheAutopsys) {
  const TempDir dir;
  testing::leave_journal(dir.path(), [] { testing::close(testing::open("x")); });
  DirectorySource source = source_in(dir);
  Follower follower(source, {10, {}});
  EXPECT_TRUE(follower.look().spans.empty());
  EXPECT_FALSE(follower.has_seen_any());
}

// A process of another source that runs, with its session open and what it has not stored.
MemorySource::Make running(std::int32_t pid, const std::string& session,
                           std::vector<model::Span> closed) {
  return [=](Process& out) {
    out.state.pid = pid;
    out.state.fate = model::Fate::kRunning;
    model::Span root = testing::session(100, out.records.arena.copy(session), 0, model::kNone);
    out.state.open.push_back({root, 0, 0, false, true});
    out.records.spans = closed;
    for (model::Span& each : out.records.spans) each.pid = pid;
  };
}

// The sessions of a process that recovery closed.
std::string closed_by_death(std::vector<std::uint64_t> sessions) {
  model::Batch batch;
  for (const std::uint64_t id : sessions) {
    batch.spans.push_back(testing::session(id, "acme.session", 0, 50));
    batch.spans.back().attrs = R"("pid":1,"sonde.closed_by":"death")";
  }
  return testing::json_of(batch);
}

// A journal is locked while it is recovered, as if its process lived.
TEST(Follower, OneWhoseJournalIsStillBeingRecoveredHasDied) {
  MemorySource source;
  source.start("p", running(7, "acme.session", {}));
  Follower follower(source, {10, {}});
  follower.look();
  source.store("1", closed_by_death({100}), 0);
  EXPECT_TRUE(follower.look().ended.empty()) << "its journal is still there";
  EXPECT_TRUE(follower.look().ended.empty());
  source.vanish("p");
  const model::Look last = follower.look();
  ASSERT_EQ(last.ended.size(), 1u);
  EXPECT_EQ(last.ended[0].kind, Kind::kDied);
}

// Its rank and pid may be the same, as in containers.
TEST(Follower, TheDeathOfAnotherSessionIsNotItsOwn) {
  MemorySource source;
  source.start("p", running(7, "acme.session", {}));
  Follower follower(source, {10, {}});
  follower.look();
  source.store("1", closed_by_death({200, 300}), 0);
  source.vanish("p");
  const model::Look last = follower.look();
  ASSERT_EQ(last.ended.size(), 1u);
  EXPECT_EQ(last.ended[0].kind, Kind::kEnded);
}

TEST(Follower, TheApiIsTheSessions) {
  MemorySource source;
  source.start("p", running(7, "acme.session", {span(1, 100, "step", 0, 10)}));
  Follower follower(source, {10, {}});
  const model::Look look = follower.look();
  ASSERT_EQ(look.spans.size(), 1u);
  EXPECT_EQ(look.spans[0].api, "acme");
  EXPECT_EQ(look.began.at(0).api, "acme");
  EXPECT_FALSE(look.several_ranks);
  source.vanish("p");
  const model::Look last = follower.look();
  ASSERT_EQ(last.ended.size(), 1u);
  EXPECT_EQ(last.ended[0].kind, Kind::kEnded) << "its journal is gone: it was shut down";
  EXPECT_EQ(last.ended[0].api, "acme");
}

TEST(Follower, HistoryIsTheNewestOfWhatIsStored) {
  MemorySource source;
  for (std::uint64_t i = 1; i <= 5; ++i) {
    model::Batch batch;
    batch.spans = {span(i, 100, "old", 0, static_cast<std::int64_t>(i), 0)};
    batch.spans[0].index = static_cast<std::int64_t>(i);
    source.store(std::to_string(i), testing::json_of(batch), 0);
  }
  source.start("p", running(7, "acme.session", {span(9, 100, "fresh", 0, 20)}));
  Follower follower(source, {2, {}});
  const model::Look look = follower.look();
  EXPECT_EQ(names_of(look), (Names{"old", "old", "fresh"}));
  EXPECT_EQ(look.spans[0].span.index, 4);
  EXPECT_EQ(look.spans[1].span.index, 5);
}

std::string stored(std::vector<model::Span> spans) {
  model::Batch batch;
  batch.spans = std::move(spans);
  return testing::json_of(batch);
}

Names marks_of(const model::Look& look) {
  Names names;
  for (const model::Mark& each : look.marks) names.emplace_back(each.name);
  return names;
}

// The same mark is in the journal and then in a batch; another one is on no span.
TEST(Follower, AMarkComesWhenItIsFirstSeen) {
  MemorySource source;
  model::Batch batch;
  batch.marks = {testing::mark(1, 50, "loss", 0.5), testing::mark(2, 0, "note", 1)};
  batch.marks[0].ts_ns = 20;
  batch.marks[1].ts_ns = 10;
  bool in_journal = true;
  source.start("p", [&](Process& out) {
    out.state.fate = model::Fate::kRunning;
    out.state.open.push_back({span(50, 100, "epoch", 0, model::kNone), 0, 0, false, false});
    if (in_journal) out.records.marks = batch.marks;
  });
  Follower follower(source);
  EXPECT_EQ(marks_of(follower.look()), (Names{"note", "loss"})) << "in order of time";
  EXPECT_TRUE(follower.look().marks.empty());
  in_journal = false;
  source.store_unlisted("1", testing::json_of(batch), 1);
  EXPECT_TRUE(follower.look().marks.empty());
  model::Batch late;
  late.marks = {testing::mark(3, 50, "late", 0.25)};
  source.store_unlisted("2", testing::json_of(late), 2);
  EXPECT_EQ(marks_of(follower.look()), (Names{"late"})) << "it was stored between two looks";
}

TEST(Follower, OneLookBringsTheStateOfEachProcess) {
  MemorySource source;
  std::uint64_t lost = 0;
  for (const std::int32_t pid : {7, 8}) {
    source.start(std::to_string(pid), [&lost, pid](Process& out) {
      running(pid, "acme.session", {})(out);
      out.state.lost_records = lost;
    });
  }
  Follower follower(source);
  follower.look();
  lost = 5;
  const int before = source.inspects;
  const model::Look look = follower.look();
  EXPECT_EQ(source.inspects - before, 2) << "each journal is read once";
  ASSERT_EQ(look.processes.size(), 2u);
  EXPECT_EQ(look.processes[1].pid, 8);
  EXPECT_EQ(look.processes[1].lost_records, 5u);
  ASSERT_EQ(look.processes[1].open.size(), 1u);
  EXPECT_EQ(look.processes[1].open[0].span.name, "acme.session");
}

TEST(Follower, HistoryIsOfTheSpansThatAreWanted) {
  MemorySource source;
  for (std::uint64_t i = 1; i <= 5; ++i) {
    model::Batch batch;
    const auto end = static_cast<std::int64_t>(2 * i);
    batch.spans = {span(i, 100, "epoch", 0, end), span(i + 10, 100, "step", 0, end + 1)};
    batch.marks = {testing::mark(i, i, "loss", static_cast<double>(i))};
    batch.marks[0].ts_ns = end;
    source.store(std::to_string(i), testing::json_of(batch), 0);
  }
  source.start("p", running(7, "acme.session", {span(9, 100, "fresh", 0, 20)}));
  Follower follower(source, {2, [](const model::Span& each, const model::Place&) {
                               return each.name == "epoch";
                             }});
  const model::Look look = follower.look();
  EXPECT_EQ(names_of(look), (Names{"epoch", "epoch", "fresh"}));
  EXPECT_EQ(look.spans[0].span.id.lo, 4u);
  ASSERT_EQ(look.marks.size(), 2u);
  EXPECT_EQ(look.marks[0].real, 4);
}

TEST(Follower, ABatchThatCannotBeReadNowIsReadLater) {
  MemorySource source;
  source.store("1", stored({span(1, 100, "before", 0, 10)}), 0);
  source.start("p", running(7, "acme.session", {}));
  Follower follower(source, {10, {}});
  source.failing = "1";
  const model::Look first = follower.look();
  EXPECT_TRUE(first.spans.empty());
  EXPECT_EQ(first.problems, (Names{"cannot read 1: Input/output error"}));
  EXPECT_TRUE(follower.look().problems.empty()) << "told once";
  source.failing = "2";
  source.store("2", stored({span(2, 100, "after", 10, 20)}), 0);
  EXPECT_EQ(names_of(follower.look()), (Names{"before"}));
  source.failing.clear();
  EXPECT_EQ(names_of(follower.look()), (Names{"after"}));
  EXPECT_TRUE(follower.look().spans.empty());
}

TEST(Follower, ADamagedBatchIsToldAndLeftOut) {
  MemorySource source;
  source.start("p", running(7, "acme.session", {}));
  Follower follower(source, {10, {}});
  source.store("1", "{", 0);
  EXPECT_EQ(follower.look().problems.size(), 1u);
  const int reads = source.reads;
  EXPECT_TRUE(follower.look().problems.empty());
  EXPECT_EQ(source.reads, reads);
}

TEST(Follower, WhatIsFollowedIsGone) {
  MemorySource source;
  source.start("p", running(7, "acme.session", {}));
  Follower follower(source, {10, {}});
  EXPECT_FALSE(follower.look().gone);
  EXPECT_EQ(follower.running(), 1u);
  source.refresh_fails = {EIO, "cannot list"};
  const model::Look failed = follower.look();
  EXPECT_EQ(failed.problems.size(), 1u);
  EXPECT_EQ(follower.running(), 1u) << "it may be there again";
  source.refresh_fails = {ENOENT, "cannot list"};
  const model::Look gone = follower.look();
  EXPECT_TRUE(gone.gone);
  EXPECT_TRUE(gone.ended.empty()) << "whether it ended is not known";
  EXPECT_EQ(follower.running(), 0u);
}

// As in containers, where the first process has pid 1 in each.
TEST(Follower, ThePidAloneDoesNotTellTheApi) {
  MemorySource source;
  source.start("p", running(1, "acme.session", {span(1, 100, "mine", 0, 10)}));
  model::Span root = on_rank(1, testing::session(200, "other.session", 0, 30));
  model::Span work = on_rank(1, span(2, 200, "theirs", 0, 20));
  root.pid = work.pid = 1;
  Follower follower(source, {10, {}});
  source.store("1", stored({work, root}), 0);
  const model::Look look = follower.look();
  ASSERT_EQ(names_of(look), (Names{"mine", "theirs", "other.session"}));
  EXPECT_EQ(look.spans[0].api, "acme");
  EXPECT_EQ(look.spans[1].api, "other");
}

}  // namespace
}  // namespace sonde::run
