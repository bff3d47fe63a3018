#include "engine/report/live.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace sonde::report
