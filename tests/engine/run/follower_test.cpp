// Following running processes: what one look brings, as values.
#include "engine/run/follower.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/run/directory_source.h"
#include "tests/engine/run/memory_source.h"
#include "tests/engine/support/dead_journal.h"
#include "tests/engine/support/spans.h"

namespace sonde::run {
namespace {

using testing::Child;
using testing::MemorySource;
using testing::span;
using testing::TempDir;
using Kind = model::ProcessEvent::Kind;
using Names = std::vector<std::string>;

const model::LineFilter kAll{model::Level::kAll, ""};

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
  Follower follower(source, 10, kAll);

  const model::Look first = follower.look();
  ASSERT_EQ(first.began.size(), 1u);
  EXPECT_EQ(first.began[0].kind, Kind::kBegan);
  EXPECT_EQ(first.began[0].pid, child.pid());
  EXPECT_EQ(first.began[0].rank, 1);
  EXPECT_EQ(names_of(first), (Names{"part"}));
  EXPECT_TRUE(first.spans[0].place.in_epoch);
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

  child.kill_and_wait();
  const model::Look last = follower.look();
  ASSERT_EQ(last.ended.size(), 1u);
  EXPECT_EQ(last.ended[0].kind, Kind::kDied);
  EXPECT_EQ(last.ended[0].pid, first.began[0].pid);
  EXPECT_EQ(follower.running(), 0u);
  EXPECT_TRUE(follower.look().ended.empty()) << "told once";
  EXPECT_EQ(names_of(first), (Names{"part"})) << "a look keeps its own text";
}

TEST(Follower, OneThatWasDeadBeforeIsTheAutopsys) {
  const TempDir dir;
  testing::leave_journal(dir.path(), [] { testing::close(testing::open("x")); });
  DirectorySource source = source_in(dir);
  Follower follower(source, 10, kAll);
  EXPECT_TRUE(follower.look().spans.empty());
  EXPECT_FALSE(follower.has_seen_any());
}

// A process of another source that runs, with its session open and what it has not stored.
MemorySource::Make running(std::int32_t pid, const std::string& session,
                           std::vector<model::Span> closed) {
  return [=](Process& out) {
    out.state.pid = pid;
    out.state.fate = model::Fate::kRunning;
    model::Span root = span(100, 0, out.records.arena.copy(session), 0, model::kNone);
    out.state.open.push_back({root, 0, 0, false, true});
    out.records.spans = closed;
    for (model::Span& each : out.records.spans) each.pid = pid;
  };
}

TEST(Follower, TheApiIsTheSessions) {
  MemorySource source;
  source.start("p", running(7, "acme.session", {span(1, 100, "step", 0, 10)}));
  Follower follower(source, 10, kAll);
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
  Follower follower(source, 2, kAll);
  const model::Look look = follower.look();
  EXPECT_EQ(names_of(look), (Names{"old", "old", "fresh"}));
  EXPECT_EQ(look.spans[0].span.index, 4);
  EXPECT_EQ(look.spans[1].span.index, 5);
}

TEST(Follower, ASpanWaitsUntilItsLevelIsKnown) {
  MemorySource source;
  source.start("p", running(7, "acme.session", {span(1, 50, "mine", 0, 10)}));
  Follower follower(source, 0, {model::Level::kStep, ""});
  EXPECT_TRUE(follower.look().spans.empty()) << "whether it is inside a step is not known";
  source.vanish("p");
  source.start(
      "p", running(7, "acme.session", {span(50, 100, "epoch", 0, 20), span(1, 50, "mine", 0, 10)}));
  const model::Look look = follower.look();
  EXPECT_EQ(names_of(look), (Names{"mine", "epoch"}));
  EXPECT_EQ(look.spans[0].span.name, "mine") << "its text is of the look before";
}

}  // namespace
}  // namespace sonde::run
