#include "engine/report/summary.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/support/spans.h"

namespace sonde::report {
namespace {

using sonde::testing::on_rank;
using sonde::testing::span;

analysis::Summary summary_of(const std::vector<model::Span>& spans) {
  analysis::Summarizer summarizer;
  summarizer.add(spans);
  return summarizer.finish();
}

TEST(SummaryText, OfNothing) { EXPECT_EQ(summary_text({}), "(no spans)\n"); }

TEST(SummaryText, AlignsColumns) {
  EXPECT_EQ(summary_text(summary_of({span(2, 1, "step", 0, 10), span(3, 1, "step", 10, 20),
                                     span(1, 0, "session", 0, 2000)})),
            "name     count  total  of parent    self   mean   ~p50   ~p95    min    max\n"
            "session      1  2.0ms     100.0%   99.0%  2.0ms  2.0ms  2.0ms  2.0ms  2.0ms\n"
            "  step       2   20us       1.0%  100.0%   10us   10us   10us   10us   10us\n");
}

TEST(SummaryText, RanksAreGroupsAndExtraColumnsComeWhenNeeded) {
  std::vector<model::Span> spans = {on_rank(0, span(1, 0, "a", 0, 1)),
                                    on_rank(1, span(2, 0, "a\xC3\xA4", 0, model::kNone))};
  spans[0].gpu_ns = 500;
  EXPECT_EQ(
      summary_text(summary_of(spans)),
      "name    count  total  of parent    self  mean  ~p50  ~p95  min  max    gpu  open\n"
      "rank 0\n"
      "  a         1    1us     100.0%  100.0%   1us   1us   1us  1us  1us  500ns\n"
      "rank 1\n"
      "  a\xC3\xA4        0    0us       0.0%    0.0%     -     -     -    -    -      -     1\n");
}

TEST(SummaryText, WhatIsOpenCountsWithTheTimeSoFar) {
  std::vector<model::Span> spans = {span(3, 2, "step", 0, 1000), span(4, 2, "step", 1000, 2000),
                                    span(5, 2, "step", 2000, model::kNone),
                                    span(2, 1, "epoch", 0, model::kNone),
                                    span(1, 0, "session", 0, model::kNone)};
  for (model::Span& each : spans) {
    if (each.open()) each.seen_ns = 4'000'000;
  }
  EXPECT_EQ(summary_text(summary_of(spans)),
            "name      count  total  of parent    self   mean   ~p50   ~p95    min    max"
            "         open\n"
            "session       0  4.0ms     100.0%    0.0%      -      -      -      -      -"
            "  1 for 4.0ms\n"
            "  epoch       0  4.0ms     100.0%    0.0%      -      -      -      -      -"
            "  1 for 4.0ms\n"
            "    step      2  4.0ms     100.0%  100.0%  1.0ms  1.0ms  1.0ms  1.0ms  1.0ms"
            "  1 for 2.0ms\n"
            "Totals and shares include open spans with their time so far; the other figures do "
            "not.\n");
}

TEST(SummaryText, SaysHowManyStepsAScalerSkipped) {
  std::vector<model::Span> spans = {span(2, 1, "step", 0, 1), span(3, 1, "step", 1, 2),
                                    span(4, 1, "step", 2, 3), span(1, 0, "epoch", 0, 3)};
  EXPECT_EQ(summary_text(summary_of(spans)).find("skipped"), std::string::npos);
  spans[1].attrs = R"("a":1,"skipped":true)";
  spans[2].attrs = R"("skipped":false)";
  EXPECT_NE(summary_text(summary_of(spans)).find("The scaler skipped 1 of 3 steps: "),
            std::string::npos);
}

TEST(SummaryText, TimesThatAreOnlyTheHostsAreSaid) {
  std::vector<model::Span> spans = {span(2, 1, "batch", 0, 10), span(1, 0, "epoch", 0, 100)};
  spans[0].attrs = R"("timing":"dispatch")";
  EXPECT_EQ(summary_text(summary_of(spans)),
            "name     count  total  of parent  self   mean   ~p50   ~p95    min    max\n"
            "epoch        1  100us     100.0%     -  100us  100us  100us  100us  100us\n"
            "  batch      1   10us          -     -   10us   10us   10us   10us   10us\n"
            "batch: the program hands work to a device there and does not wait for it, so these "
            "times are the "
            "host's. Where the device's time (gpu) is not known, no share is shown; to measure it, "
            "wait for the result inside the span, for example with jax.block_until_ready().\n");
  const std::string json = summary_json(summary_of(spans));
  EXPECT_NE(json.find(R"("timing":"dispatch","share_of_parent":null)"), std::string::npos) << json;
  spans[0].gpu_ns = 80'000;
  const std::string known = summary_text(summary_of(spans));
  EXPECT_NE(known.find("80.0%"), std::string::npos) << known;
  EXPECT_NE(known.find("Their shares are of the device's time (gpu)."), std::string::npos) << known;
}

TEST(SummaryText, HintsComeLast) {
  std::vector<model::Span> spans = {span(1, 0, "session", 0, 100)};
  spans[0].attrs = R"("sonde.hint":"do this")";
  EXPECT_TRUE(summary_text(summary_of(spans)).ends_with("\nhint: do this\n"));
  const std::string json = summary_json(summary_of(spans));
  EXPECT_NE(json.find(R"("hints":["do this"],"ranks")"), std::string::npos) << json;
}

TEST(SummaryText, SaysWhatItLeavesOut) {
  analysis::Summary summary = summary_of({span(1, 0, "a", 0, 1)});
  summary.orphans = 7;
  summary.names_folded = true;
  const std::string text = summary_text(summary);
  EXPECT_NE(text.find("7 spans are under (orphans)"), std::string::npos);
  EXPECT_NE(text.find("(other names)"), std::string::npos);
}

TEST(SummaryHtml, IsTheTableWithNamesEscaped) {
  analysis::Summary summary = summary_of({span(1, 0, "a<b>&", 0, 1)});
  summary.left_out = 3;
  const std::string page = summary_html(summary);
  EXPECT_NE(page.find(">a&lt;b&gt;&amp;</td>"), std::string::npos) << page;
  EXPECT_NE(page.find("<p>3 older spans"), std::string::npos) << page;
  EXPECT_EQ(summary_html({}), "(no spans)\n");
}

TEST(SummaryJson, Nodes) {
  EXPECT_EQ(
      summary_json(summary_of({span(1, 0, "a\"", 0, 1)})),
      R"({"spans":1,"left_out":0,"orphans":0,"names_folded":false,"ranks":[{"rank":0,"roots":[{"name":"a\"","count":1,"open":0,"open_ns":0,"skipped":0,)"
      R"("total_ns":1000,"self_ns":1000,"mean_ns":1000,"p50_ns":1000,"p95_ns":1000,"min_ns":1000,"max_ns":1000,)"
      R"("gpu_ns":null,"share_of_parent":1.0,"children":[]}]}]})"
      "\n");
  EXPECT_EQ(summary_json({}),
            "{\"spans\":0,\"left_out\":0,\"orphans\":0,\"names_folded\":false,\"ranks\":[]}\n");
}

}  // namespace
}  // namespace sonde::report
