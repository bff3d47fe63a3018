#include "engine/report/live.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/level.h"
#include "engine/run/follower.h"
#include "tests/engine/run/memory_source.h"
#include "tests/engine/support/spans.h"

namespace sonde::report {
namespace {

using model::ProcessEvent;
using sonde::testing::mark;
using sonde::testing::on_rank;
using sonde::testing::span;

TEST(LiveLine, IsOfItsSessionsApi) {
  model::LiveSpan live;
  live.span = on_rank(3, span(1, 0, "epoch", 0, 142, 0));
  live.marks = {mark(1, 1, "loss", 0.5)};
  live.api = "acme";
  EXPECT_EQ(live_line(live, false), "[acme] epoch[0] - 142us {loss=0.5000}\n");
  live.api.clear();
  EXPECT_EQ(live_line(live, true), "[sonde] rank 3 epoch[0] - 142us {loss=0.5000}\n");
}

TEST(LiveLine, CountsTheMarksThatItLeavesOut) {
  model::LiveSpan live;
  live.span = span(1, 0, "epoch", 0, 142);
  live.marks = {mark(1, 1, "loss", 0.5)};
  live.more_marks = 36;
  EXPECT_EQ(live_line(live, false), "[sonde] epoch - 142us {loss=0.5000} (36 more marks)\n");
}

TEST(ProcessLine, BeginEndAndDeath) {
  ProcessEvent event{ProcessEvent::Kind::kBegan, 42, 1, 65'000'000'000, "acme"};
  EXPECT_EQ(process_line(event, "out"), "[acme] pid 42 (rank 1) has been running for 1m 05s\n");
  event.kind = ProcessEvent::Kind::kEnded;
  EXPECT_EQ(process_line(event, "out"), "[acme] pid 42 (rank 1) ended\n");
  event.kind = ProcessEvent::Kind::kDied;
  EXPECT_EQ(process_line(event, "out"),
            "[acme] pid 42 (rank 1) died; see what was open with: sonde autopsy out\n");
}

using sonde::testing::MemorySource;

// A process that runs, with its session open and what it has not stored.
MemorySource::Make running(std::vector<model::Span> closed) {
  return [closed = std::move(closed)](run::Process& out) {
    out.state.pid = 7;
    out.state.fate = model::Fate::kRunning;
    out.state.open.push_back(
        {sonde::testing::session(100, "acme.session", 0, model::kNone), 0, 0, false, true});
    out.records.spans = closed;
    for (model::Span& each : out.records.spans) each.pid = 7;
  };
}

const std::string kBegan = "[acme] pid 7 (rank 0) has been running for 0us\n";

TEST(LiveLines, ASpanWaitsUntilItsLevelIsKnown) {
  MemorySource source;
  source.start("p", running({span(1, 50, "mine", 0, 10)}));
  run::Follower follower(source);
  LiveLines lines({model::Level::kStep, ""}, "out");
  EXPECT_EQ(lines.draw(follower.look()), kBegan) << "whether it is inside a step is not known";
  source.vanish("p");
  source.start("p", running({span(50, 100, "epoch", 0, 20), span(1, 50, "mine", 0, 10)}));
  EXPECT_EQ(lines.draw(follower.look()), "[acme] mine - 10us\n[acme] epoch - 20us\n")
      << "the text of the first is of the look before";
}

TEST(LiveLines, ASpanDoesNotWaitForever) {
  MemorySource source;
  source.start("p", running({span(1, 50, "mine", 0, 10)}));
  run::Follower follower(source);
  LiveLines lines({model::Level::kStep, ""}, "out");
  EXPECT_EQ(lines.draw(follower.look()), kBegan);
  for (int look = 2; look <= 4; ++look) EXPECT_EQ(lines.draw(follower.look()), "");
  EXPECT_EQ(lines.draw(follower.look()), "[acme] mine - 10us\n");
}

TEST(LiveLines, ASpanWhoseLevelDoesNotMatterIsShownAtOnce) {
  MemorySource source;
  source.start("p", running({span(1, 50, "mine", 0, 10), span(2, 60, "forward", 0, 20)}));
  run::Follower follower(source);
  LiveLines all({model::Level::kAll, ""}, "out"), steps({model::Level::kStep, ""}, "out");
  const model::Look look = follower.look();
  EXPECT_EQ(all.draw(look), kBegan + "[acme] mine - 10us\n[acme] forward - 20us\n");
  EXPECT_EQ(steps.draw(look), kBegan) << "a forward is part of a step";
}

}  // namespace
}  // namespace sonde::report
