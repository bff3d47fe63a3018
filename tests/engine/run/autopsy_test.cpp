// What an autopsy concludes, as a value.
#include "engine/run/autopsy.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/run/directory_source.h"
#include "tests/engine/run/memory_source.h"
#include "tests/engine/support/dead_journal.h"
#include "tests/engine/support/spans.h"

namespace sonde::run {
namespace {

using model::Autopsy;
using model::Fate;
using testing::Child;
using testing::names_of;
using testing::TempDir;
using Names = std::vector<std::string>;

Names open_names(const model::ProcessState& process) {
  Names names;
  for (const model::OpenScope& scope : process.open) names.emplace_back(scope.span.name);
  return names;
}

Autopsy autopsy_in(const TempDir& dir, bool keep) {
  Location place;
  EXPECT_TRUE(locate(dir.path(), place).ok());
  DirectorySource source(std::move(place));
  return perform_autopsy(source, {.last = 10, .keep = keep});
}

void record_some() {
  for (int i = 0; i < 12; ++i) testing::close(testing::open("step"));
  testing::open("epoch", {.index = 2, .flags = record::kHasIndex});
  testing::mark("loss", 0.5);
  testing::open("forward");
}

TEST(Autopsy, OfAKilledChild) {
  const TempDir dir;
  testing::leave_journal(dir.path(), record_some);
  const Autopsy kept = autopsy_in(dir, true);
  EXPECT_EQ(kept.source, dir.path());
  EXPECT_TRUE(kept.kept);
  ASSERT_EQ(kept.processes.size(), 1u);
  const model::ProcessState& dead = kept.processes[0];
  EXPECT_EQ(dead.fate, Fate::kDead);
  EXPECT_EQ(dead.rank, 1);
  EXPECT_EQ(dead.world_size, 2);
  EXPECT_EQ(open_names(dead), (Names{"epoch", "forward"}));
  EXPECT_EQ(names_of(dead.last_spans), Names(10, "step")) << "the newest ten";
  ASSERT_EQ(dead.last_marks.size(), 1u);
  EXPECT_EQ(dead.last_marks[0].span_id, dead.open[0].span.id);
  EXPECT_EQ(dead.unflushed_spans, 12u);
  EXPECT_EQ(dead.unflushed_marks, 1u);
  EXPECT_GE(dead.last_sign_ns, dead.started_ns);
  EXPECT_FALSE(dead.moved);
  EXPECT_EQ(kept.moved.journals, 0u);
  EXPECT_TRUE(std::filesystem::exists(dir / "live/dead.journal"));
}

TEST(Autopsy, KnowsTheScopesOfMarksWhoseSpansAreNotAmongTheLast) {
  const TempDir dir;
  testing::leave_journal(dir.path(), [] {
    const record::ScopeHandle first = testing::open("first");
    testing::mark("loss", 0.5);
    testing::close(first);
    record_some();
  });
  const Autopsy autopsy = autopsy_in(dir, true);
  ASSERT_EQ(autopsy.processes.size(), 1u);
  EXPECT_EQ(autopsy.processes[0].last_marks.size(), 2u);
  EXPECT_EQ(names_of(autopsy.processes[0].marked_spans), Names{"first"});
}

TEST(Autopsy, TheCallerSaysHowManyOfTheLastItWants) {
  const TempDir dir;
  testing::leave_journal(dir.path(), record_some);
  Location place;
  ASSERT_TRUE(locate(dir.path(), place).ok());
  DirectorySource source(std::move(place));
  const Autopsy some = perform_autopsy(source, {.last = 3, .keep = true});
  ASSERT_EQ(some.processes.size(), 1u);
  EXPECT_EQ(names_of(some.processes[0].last_spans), Names(3, "step"));
  const Autopsy all = perform_autopsy(source, {.keep = true});
  ASSERT_EQ(all.processes.size(), 1u);
  EXPECT_EQ(names_of(all.processes[0].last_spans), Names(12, "step"));
}

TEST(Autopsy, TheCallerSaysHowManyOfTheEndedProcessesItWants) {
  testing::MemorySource source;
  for (std::uint64_t id = 1; id <= 12; ++id) {
    model::Batch batch;
    batch.spans = {testing::session(id, "acme.session", 0, static_cast<std::int64_t>(id))};
    batch.spans[0].attrs = R"("pid":1,"ended_by":"exit","exit_code":3)";
    source.store(std::to_string(id), testing::json_of(batch), 0);
  }
  const Autopsy some = perform_autopsy(source, {.last = 2, .keep = true});
  ASSERT_EQ(some.ended.size(), 2u);
  EXPECT_EQ(some.ended[1].session.id.lo, 12u) << "the newest at the end";
  EXPECT_EQ(some.ended[1].ending.exit_code, 3);
  EXPECT_EQ(perform_autopsy(source, {.keep = true}).ended.size(), 12u);
}

TEST(Autopsy, RecoversAndOutlivesWhatItRead) {
  const TempDir dir;
  testing::leave_journal(dir.path(), record_some);
  const Autopsy moved = autopsy_in(dir, false);
  EXPECT_EQ(moved.moved.journals, 1u);
  EXPECT_EQ(moved.moved.spans, 12u);
  EXPECT_EQ(moved.moved.open_scopes, 2u);
  EXPECT_EQ(moved.moved.files.size(), 1u);
  EXPECT_TRUE(moved.processes.at(0).moved);
  EXPECT_FALSE(std::filesystem::exists(dir / "live/dead.journal"));

  const Autopsy again = autopsy_in(dir, false);
  std::filesystem::remove_all(dir / "spool");
  ASSERT_EQ(again.processes.size(), 1u);
  EXPECT_EQ(again.processes[0].fate, Fate::kRecovered);
  EXPECT_EQ(again.processes[0].pid, moved.processes[0].pid);
  EXPECT_EQ(open_names(again.processes[0]), (Names{"epoch", "forward"}));
  EXPECT_EQ(names_of(again.processes[0].last_spans), Names(10, "step"));
  EXPECT_EQ(again.moved.journals, 0u);
}

TEST(Autopsy, ARunningProcessIsLeftAlone) {
  const TempDir dir;
  Child child([&](const Child::Say& say) {
    testing::attach_journal(dir / "live/a.journal");
    record_some();
    say();
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(child.heard());
  const Autopsy autopsy = autopsy_in(dir, false);
  ASSERT_EQ(autopsy.processes.size(), 1u);
  EXPECT_EQ(autopsy.processes[0].fate, Fate::kRunning);
  EXPECT_EQ(autopsy.processes[0].pid, child.pid());
  EXPECT_FALSE(autopsy.processes[0].moved);
  EXPECT_EQ(autopsy.moved.journals, 0u);

  Location place;
  ASSERT_TRUE(locate(dir.path(), place).ok());
  DirectorySource source(std::move(place));
  const model::RunningProcesses open = running_processes(source);
  ASSERT_EQ(open.processes.size(), 1u);
  EXPECT_EQ(open_names(open.processes[0]), (Names{"epoch", "forward"}));
  EXPECT_TRUE(open.processes[0].last_spans.empty());
  child.kill_and_wait();
  EXPECT_TRUE(running_processes(source).processes.empty());
}

// Two containers share the directory, and both have the pid 1.
TEST(Autopsy, TheSpansOfAnotherProcessWithTheSamePidAreNotOfTheDeadOne) {
  testing::MemorySource source;
  source.start("p", [](Process& out) {
    out.state.pid = 1;
    out.state.fate = Fate::kDead;
    model::Span root = testing::session(100, "acme.session", 0, model::kNone);
    root.pid = 1;
    out.state.open.push_back({root, 0, 0, false, true});
  });
  const auto store = [&](const std::string& key, std::vector<model::Span> spans) {
    model::Batch batch;
    for (model::Span& each : spans) each.pid = 1;
    batch.spans = std::move(spans);
    source.store(key, testing::json_of(batch), 0);
  };
  using testing::span;
  store("1", {span(1, 100, "mine", 0, 10), testing::on_rank(1, span(5, 0, "ranked", 0, 20))});
  store("2", {span(2, 3, "theirs", 10, 20)});
  store("3", {span(3, 200, "theirs too", 10, 30), testing::session(200, "other.session", 0, 40)});
  const Autopsy autopsy = perform_autopsy(source, {.last = 10, .keep = true});
  ASSERT_EQ(autopsy.processes.size(), 1u);
  EXPECT_EQ(names_of(autopsy.processes[0].last_spans), (Names{"mine"}));
}

TEST(Autopsy, ABatchThatCannotBeReadIsNamedAndOneThatIsGoneIsNot) {
  testing::MemorySource source;
  const auto store = [&](const std::string& key, std::uint64_t id) {
    model::Batch batch;
    batch.spans = {testing::session(id, "acme.session", 0, static_cast<std::int64_t>(id))};
    batch.spans[0].attrs = R"("pid":1,"ended_by":"exit")";
    source.store(key, testing::json_of(batch), 0);
  };
  store("first", 1);
  source.store("garbage", "{", 0);
  store("failing", 2);
  store("gone", 3);
  store("newest", 4);
  source.failing = "failing";
  source.evict("gone");
  const Autopsy autopsy = perform_autopsy(source, {.last = 10, .keep = true});
  ASSERT_EQ(autopsy.problems.size(), 2u);
  EXPECT_EQ(autopsy.problems[0], "cannot read failing: Input/output error");
  EXPECT_NE(autopsy.problems[1].find("garbage"), std::string::npos) << autopsy.problems[1];
  EXPECT_EQ(autopsy.ended.size(), 2u) << "the rest is read";
}

}  // namespace
}  // namespace sonde::run
