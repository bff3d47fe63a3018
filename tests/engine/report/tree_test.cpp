#include "engine/report/tree.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/support/spans.h"

namespace sonde::report {
namespace {

using model::Span;
using sonde::testing::mark;
using sonde::testing::on_rank;
using sonde::testing::span;

TEST(TreeText, OfNothing) { EXPECT_EQ(tree_text({}, {}), "(no spans)\n"); }

TEST(TreeText, IndentsAndJoinsMarks) {
  const std::vector<Span> spans = {span(3, 2, "forward", 1, 143), span(2, 1, "epoch", 0, 1500, 0),
                                   span(1, 0, "cirron.session", 0, model::kNone)};
  const std::vector<model::Mark> marks = {mark(1, 2, "epoch_loss", 0.5234),
                                          mark(2, 99, "elsewhere", 1)};
  EXPECT_EQ(tree_text(spans, marks),
            "cirron.session - open\n"
            "  epoch[0] - 1.5ms {epoch_loss=0.5234}\n"
            "    forward - 142us\n");
}

TEST(TreeText, AttributesWhenAskedFor) {
  std::vector<Span> spans = {span(1, 0, "a", 0, 1), span(2, 1, "b", 0, 1)};
  spans[0].attrs = "\"lr\":0.1,\n\"note\":\"x\"";
  const std::vector<model::Mark> marks = {mark(1, 1, "loss", 0.5)};
  EXPECT_EQ(tree_text(spans, marks, {.attrs = true}),
            "a - 1us {loss=0.5000} {\"lr\":0.1,\\x0a\"note\":\"x\"}\n"
            "  b - 1us\n");
  EXPECT_EQ(tree_text(spans, marks),
            "a - 1us {loss=0.5000}\n"
            "  b - 1us\n");
}

TEST(TreeText, TimesThatAreOnlyTheHosts) {
  std::vector<Span> spans = {span(2, 1, "batch", 0, 1), span(3, 1, "batch", 1, 2),
                             span(4, 1, "batch", 2, 4), span(1, 0, "epoch", 0, 100)};
  for (std::size_t i = 0; i < 3; ++i) spans[i].attrs = R"("timing":"dispatch")";
  spans[0].gpu_ns = 40'000;
  EXPECT_EQ(tree_text(spans, {}, {.sibling_limit = 1}),
            "epoch - 100us\n"
            "  batch - 1us dispatch, 40us on the device\n"
            "  ... 2 more batch - total 3us, mean 1us dispatch\n");
  spans[1].gpu_ns = spans[2].gpu_ns = 30'000;
  EXPECT_EQ(tree_text(spans, {}, {.sibling_limit = 1}),
            "epoch - 100us\n"
            "  batch - 1us dispatch, 40us on the device\n"
            "  ... 2 more batch - total 3us, mean 1us dispatch, on the device total 60us, "
            "mean 30us\n");
}

TEST(TreeText, HintsComeLastAndOnce) {
  std::vector<Span> spans = {span(1, 0, "a", 0, 1), span(2, 0, "a", 1, 2)};
  spans[0].attrs = spans[1].attrs = R"("pid":1,"sonde.hint":"do this")";
  EXPECT_EQ(tree_text(spans, {}), "a - 1us\na - 1us\nhint: do this\n");
}

TEST(TreeText, RanksAreGroups) {
  const std::vector<Span> spans = {on_rank(1, span(1, 0, "a", 0, 1)),
                                   on_rank(0, span(2, 0, "a", 5, 7)),
                                   on_rank(0, span(3, 2, "b", 5, 6))};
  EXPECT_EQ(tree_text(spans, {}),
            "rank 0\n"
            "  a - 2us\n"
            "    b - 1us\n"
            "rank 1\n"
            "  a - 1us\n");
}

// A session per run, one second after the other, with a span below it.
std::vector<Span> runs_on_rank(std::int32_t rank, int count) {
  std::vector<Span> spans;
  for (int i = 0; i < count; ++i) {
    const auto id = static_cast<std::uint64_t>(10 * i + 100 * rank + 1);
    const std::int64_t start = 1'000'000 * (i + 1);
    spans.push_back(on_rank(rank, span(id + 1, id, "work", start, start + 1)));
    spans.push_back(on_rank(rank, sonde::testing::session(id, "cirron.session", start, start + 2)));
    for (std::size_t j = spans.size() - 2; j < spans.size(); ++j) spans[j].pid = 40 + rank + 2 * i;
  }
  return spans;
}

std::string text_of_runs(const std::vector<Span>& spans, TreeOptions options = {}) {
  model::Runs runs;
  runs.add(spans);
  runs.finish();
  options.runs = &runs;
  return tree_text(spans, {}, options);
}

TEST(TreeText, SeveralRunsAreTold) {
  EXPECT_EQ(text_of_runs(runs_on_rank(0, 2)),
            "run 1 of 2, of 1970-01-01 00:00:01.000 UTC, pid 40\n"
            "  cirron.session - 2us\n"
            "    work - 1us\n"
            "run 2 of 2, of 1970-01-01 00:00:02.000 UTC, pid 42\n"
            "  cirron.session - 2us\n"
            "    work - 1us\n");
  EXPECT_EQ(text_of_runs(runs_on_rank(0, 1)),
            "cirron.session - 2us\n"
            "  work - 1us\n");
}

TEST(TreeText, RunsOfRanks) {
  std::vector<Span> spans = runs_on_rank(0, 2);
  const std::vector<Span> other = runs_on_rank(1, 1);
  spans.insert(spans.end(), other.begin(), other.end());
  EXPECT_EQ(text_of_runs(spans, {.number_runs = false}),
            "rank 0\n"
            "  run of 1970-01-01 00:00:01.000 UTC, pid 40\n"
            "    cirron.session - 2us\n"
            "      work - 1us\n"
            "  run of 1970-01-01 00:00:02.000 UTC, pid 42\n"
            "    cirron.session - 2us\n"
            "      work - 1us\n"
            "rank 1\n"
            "  run of 1970-01-01 00:00:01.000 UTC, pid 41\n"
            "    cirron.session - 2us\n"
            "      work - 1us\n");
}

TEST(TreeText, OfManyRunsTheNewestAreShown) {
  const std::string text = text_of_runs(runs_on_rank(0, 5), {.sibling_limit = 2});
  EXPECT_TRUE(text.starts_with("... 3 earlier runs\nrun 4 of 5, ")) << text;
  const std::string one = text_of_runs(runs_on_rank(0, 3), {.sibling_limit = 2});
  EXPECT_TRUE(one.starts_with("... 1 earlier run\nrun 2 of 3, ")) << one;
}

std::vector<Span> epoch_of_steps(std::int64_t steps) {
  std::vector<Span> spans = {span(1, 0, "epoch", 0, 10'000, 0)};
  for (std::int64_t i = 0; i < steps; ++i)
    spans.push_back(span(static_cast<std::uint64_t>(i + 2), 1, "step", i, i + 10, i));
  spans.push_back(span(5000, 1, "validation", 9'000, 9'100));
  return spans;
}

TEST(TreeText, SiblingsBeyondTheLimitBecomeOneLine) {
  EXPECT_EQ(tree_text(epoch_of_steps(1000), {}, {.sibling_limit = 2}),
            "epoch[0] - 10.0ms\n"
            "  step[0] - 10us\n"
            "  step[1] - 10us\n"
            "  ... 998 more step - total 10.0ms, mean 10us\n"
            "  validation - 100us\n");
}

TEST(TreeText, NoLineWhereNothingIsLeftOut) {
  EXPECT_EQ(tree_text(epoch_of_steps(2), {}, {.sibling_limit = 2}).find("..."), std::string::npos);
  EXPECT_EQ(tree_text(epoch_of_steps(100), {}, {.sibling_limit = 0}).find("..."),
            std::string::npos);
}

TEST(TreeText, OpenSiblingsAreShownAndNotAddedUp) {
  std::vector<Span> spans = {span(1, 0, "s", 0, 10), span(2, 0, "s", 1, 11),
                             span(3, 0, "s", 2, model::kNone)};
  EXPECT_EQ(tree_text(spans, {}, {.sibling_limit = 1}),
            "s - 10us\n"
            "... 1 more s - total 10us, mean 10us\n"
            "s - open\n");
}

TEST(TreeText, WhereARunDiedAndWhatFailedIsShown) {
  std::vector<Span> spans;
  for (std::uint64_t i = 0; i < 9; ++i) {
    const auto at = static_cast<std::int64_t>(10 * i);
    spans.push_back(span(i + 1, 0, "s", at, at + 2, static_cast<std::int64_t>(i)));
  }
  spans[3].attrs = R"("exception":"ValueError","exception_message":"no")";
  spans[5].attrs = spans[6].attrs = R"("sonde.closed_by":"death")";
  spans[8].attrs = R"("sonde.closed_by":"parent")";
  EXPECT_EQ(tree_text(spans, {}, {.sibling_limit = 2}),
            "s[0] - 2us\n"
            "s[1] - 2us\n"
            "... 4 more s - total 8us, mean 2us\n"
            "s[3] - 2us [ended by ValueError: no]\n"
            "s[5] - 2us [closed by death]\n"
            "s[6] - 2us [closed by death]\n");
}

TEST(TreeText, OfManyThatFailedTheNewestAreShown) {
  std::vector<Span> spans;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const auto at = static_cast<std::int64_t>(10 * i);
    spans.push_back(span(i + 1, 0, "s", at, at + 2, static_cast<std::int64_t>(i)));
    spans.back().attrs = R"("exception":"E")";
  }
  EXPECT_EQ(tree_text(spans, {}, {.sibling_limit = 1}),
            "s[0] - 2us [ended by E]\n"
            "... 98 more s - total 196us, mean 2us, 98 of them failed\n"
            "s[99] - 2us [ended by E]\n");
}

TEST(TreeText, WhereTheRunIsTheNewestIsShown) {
  std::vector<Span> spans = {span(1, 0, "epoch", 0, 99), span(2, 0, "epoch", 100, model::kNone)};
  for (std::uint64_t i = 0; i < 10; ++i) {
    const auto at = static_cast<std::int64_t>(10 * i);
    spans.push_back(span(10 + i, 1, "step", at, at + 1, static_cast<std::int64_t>(i)));
    spans.push_back(span(30 + i, 2, "step", 100 + at, 101 + at, static_cast<std::int64_t>(i)));
  }
  EXPECT_EQ(tree_text(spans, {}, {.sibling_limit = 1}),
            "epoch - 99us\n"
            "  step[0] - 1us\n"
            "  ... 9 more step - total 9us, mean 1us\n"
            "epoch - open\n"
            "  step[0] - 1us\n"
            "  ... 8 more step - total 8us, mean 1us\n"
            "  step[9] - 1us\n");
}

TEST(TreeText, ManyMarksAreCut) {
  const std::vector<Span> spans = {span(1, 0, "s", 0, 10)};
  std::vector<model::Mark> marks;
  for (std::uint64_t i = 0; i < 1000; ++i) marks.push_back(mark(i, 1, "m", 1));
  const std::string text = tree_text(spans, marks);
  EXPECT_TRUE(text.ends_with("m=1.0000} (936 more marks)\n")) << text;
}

TEST(TreeText, TheNewestMarksAreShownWhateverTheOrderOfReading) {
  const std::vector<Span> spans = {span(1, 0, "s", 0, 10)};
  std::vector<model::Mark> marks;
  for (std::uint64_t i = 0; i < 66; ++i) {
    marks.push_back(mark(i, 1, "m", static_cast<double>((i + 33) % 66)));
    marks.back().ts_ns = static_cast<std::int64_t>((i + 33) % 66);
  }
  const std::string text = tree_text(spans, marks);
  EXPECT_TRUE(text.starts_with("s - 10us {m=2.0000, m=3.0000, ")) << text;
  EXPECT_TRUE(text.ends_with(", m=64.0000, m=65.0000} (2 more marks)\n")) << text;
}

TEST(TreeText, VeryDeepTreesAreCut) {
  std::vector<Span> spans;
  for (std::uint64_t i = 1; i <= 50'000; ++i)
    spans.push_back(span(i, i - 1, "deep", static_cast<std::int64_t>(i), 100'000));
  const std::string text = tree_text(spans, {});
  EXPECT_TRUE(text.ends_with("... deeper levels are left out\n"));
  EXPECT_LT(text.size(), 100'000u);
  EXPECT_LT(tree_json(spans, {}).size(), 100'000u);
}

TEST(TreeJson, HasTheKeysOfTrace) {
  std::vector<Span> spans = {span(2, 1, "epoch \"x\"", 1, 3, 7),
                             span(1, 0, "session", 0, model::kNone)};
  spans[0].attrs = R"("lr":0.1)";
  spans[0].pid = 42;
  const std::vector<model::Mark> marks = {mark(1, 2, "loss", 0.5), mark(2, 2, "acc", 1)};
  EXPECT_EQ(
      tree_json(spans, marks),
      R"({"roots":[{"id":"00000000000000000000000000000001","parent_id":null,"name":"session","index":null,"start_ns":0,)"
      R"("end_ns":null,"wall_us":null,"cpu_ns":null,"gpu_ns":null,"memory_peak_bytes":null,"pid":0,"rank":0,"attrs":{},)"
      R"("marks":[],"children":[{"id":"00000000000000000000000000000002","parent_id":"00000000000000000000000000000001",)"
      R"("name":"epoch \"x\"","index":7,"start_ns":1000,"end_ns":3000,"wall_us":2,"cpu_ns":null,"gpu_ns":null,)"
      R"("memory_peak_bytes":null,"pid":42,"rank":0,"attrs":{"lr":0.1},"marks":[{"name":"loss","value":0.5,"kind":"point"},)"
      R"({"name":"acc","value":1.0,"kind":"point"}],"children":[]}]}],"span_count":2})"
      "\n");
}

TEST(TreeJson, OfNothing) { EXPECT_EQ(tree_json({}, {}), "{\"roots\":[],\"span_count\":0}\n"); }

}  // namespace
}  // namespace sonde::report
