#include "engine/analysis/summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <vector>

#include "tests/engine/support/spans.h"

namespace sonde::analysis {
namespace {

using model::Span;
using sonde::testing::on_rank;
using sonde::testing::span;

// "name count total_us (children)" of a forest.
std::string shape(const std::vector<SummaryNode>& nodes) {
  std::string out;
  for (const SummaryNode& node : nodes) {
    if (!out.empty()) out += ", ";
    out +=
        node.name + " " + std::to_string(node.count) + " " + std::to_string(node.total_ns / 1000);
    if (!node.children.empty()) out += " (" + shape(node.children) + ")";
  }
  return out;
}

std::string shape_of(const std::vector<std::vector<Span>>& batches, SummaryOptions options = {}) {
  Summarizer summarizer(options);
  for (const auto& batch : batches) summarizer.add(batch);
  const Summary summary = summarizer.finish();
  return summary.ranks.empty() ? "" : shape(summary.ranks.front().roots);
}

TEST(Summary, OfNothing) {
  Summarizer summarizer;
  EXPECT_TRUE(summarizer.finish().ranks.empty());
}

TEST(Summary, AddsUpByNameAndPlace) {
  EXPECT_EQ(shape_of({{span(3, 2, "forward", 0, 4), span(4, 2, "backward", 4, 9),
                       span(2, 1, "step", 0, 10), span(6, 5, "forward", 10, 15),
                       span(5, 1, "step", 10, 22), span(7, 1, "forward", 22, 23),
                       span(1, 0, "session", 0, 30)}}),
            "session 1 30 (step 2 22 (forward 2 9, backward 1 5), forward 1 1)");
}

TEST(Summary, FiguresOfANode) {
  Summarizer summarizer;
  std::vector<Span> spans;
  for (std::int64_t i = 1; i <= 4; ++i) {
    spans.push_back(span(static_cast<std::uint64_t>(10 + i), 1, "step", 0, 10 * i));
    spans.back().gpu_ns = 5;
  }
  spans.push_back(span(1, 0, "session", 0, 200));
  summarizer.add(spans);
  const Summary summary = summarizer.finish();
  const SummaryNode& session = summary.ranks.at(0).roots.at(0);
  const SummaryNode& step = session.children.at(0);
  EXPECT_EQ(step.count, 4u);
  EXPECT_EQ(step.total_ns, 100'000);
  EXPECT_EQ(step.mean_ns, 25'000);
  EXPECT_EQ(step.min_ns, 10'000);
  EXPECT_EQ(step.max_ns, 40'000);
  EXPECT_NEAR(static_cast<double>(step.p50_ns), 30'000, 1'200);
  EXPECT_NEAR(static_cast<double>(step.p95_ns), 40'000, 1'600);
  EXPECT_EQ(step.gpu_ns, 20);
  EXPECT_EQ(step.self_ns, 100'000);
  EXPECT_DOUBLE_EQ(step.share_of_parent, 0.5);
  EXPECT_EQ(session.self_ns, 100'000);
  EXPECT_EQ(session.gpu_ns, model::kNone);
  EXPECT_EQ(summary.spans, 5u);
}

constexpr std::string_view kDispatch = R"("timing":"dispatch")";

Span dispatched(Span made, std::int64_t gpu_ns = model::kNone) {
  made.attrs = kDispatch;
  made.gpu_ns = gpu_ns;
  return made;
}

// As Keras does on JAX: batches are handed over at once, and the validation waits for them.
std::vector<Span> epoch_of_an_asynchronous_device() {
  std::vector<Span> spans = {dispatched(span(2, 1, "batch", 0, 1), 40'000),
                             dispatched(span(3, 1, "batch", 1, 2), 40'000),
                             dispatched(span(4, 1, "validation", 2, 100), 10'000)};
  spans.push_back(span(1, 0, "epoch", 0, 100));
  return spans;
}

TEST(Summary, SharesOfDispatchedWorkAreOfTheDevicesTime) {
  Summarizer summarizer;
  std::vector<Span> spans = epoch_of_an_asynchronous_device();
  spans.back().gpu_ns = 100'000;
  summarizer.add(spans);
  const SummaryNode epoch = summarizer.finish().ranks.at(0).roots.at(0);
  const SummaryNode& batch = epoch.children.at(0);
  const SummaryNode& validation = epoch.children.at(1);
  EXPECT_EQ(batch.name, "batch");
  EXPECT_TRUE(batch.dispatched);
  EXPECT_DOUBLE_EQ(batch.share_of_parent, 0.8);
  EXPECT_DOUBLE_EQ(validation.share_of_parent, 0.1);
  EXPECT_FALSE(epoch.dispatched);
  EXPECT_EQ(epoch.self_ns, 10'000);
  EXPECT_DOUBLE_EQ(epoch.self_share, 0.1);
}

TEST(Summary, TheWallTimeOfAParentStandsInForItsTimeOnTheDevice) {
  Summarizer summarizer;
  summarizer.add(epoch_of_an_asynchronous_device());
  const SummaryNode epoch = summarizer.finish().ranks.at(0).roots.at(0);
  EXPECT_DOUBLE_EQ(epoch.children.at(0).share_of_parent, 0.8);
}

TEST(Summary, DispatchedWorkOfUnknownTimeHasNoShare) {
  Summarizer summarizer;
  std::vector<Span> spans = epoch_of_an_asynchronous_device();
  spans[1].gpu_ns = model::kNone;
  summarizer.add(spans);
  const SummaryNode epoch = summarizer.finish().ranks.at(0).roots.at(0);
  const auto of = [&](std::string_view name) {
    return *std::find_if(epoch.children.begin(), epoch.children.end(),
                         [&](const SummaryNode& node) { return node.name == name; });
  };
  EXPECT_TRUE(std::isnan(of("batch").share_of_parent));
  EXPECT_DOUBLE_EQ(of("validation").share_of_parent, 0.1);
  EXPECT_EQ(epoch.self_ns, model::kNone);
  EXPECT_TRUE(std::isnan(epoch.self_share));
}

TEST(Summary, DispatchedWorkThatIsOpenHasNoShare) {
  Summarizer summarizer;
  Span open = dispatched(span(2, 1, "epoch", 0, 40));
  open.seen_ns = open.end_ns;
  open.end_ns = model::kNone;
  summarizer.add(std::vector<Span>{open, span(1, 0, "session", 0, 100)});
  const SummaryNode session = summarizer.finish().ranks.at(0).roots.at(0);
  EXPECT_TRUE(session.children.at(0).dispatched);
  EXPECT_TRUE(std::isnan(session.children.at(0).share_of_parent));
}

TEST(Summary, WhatLiesInDispatchedWorkHasAShareOnlyOnTheDevice) {
  Summarizer summarizer;
  summarizer.add(
      std::vector<Span>{span(2, 1, "mine", 0, 1), dispatched(span(1, 0, "batch", 0, 2), 40'000)});
  const SummaryNode batch = summarizer.finish().ranks.at(0).roots.at(0);
  EXPECT_TRUE(std::isnan(batch.share_of_parent));
  EXPECT_TRUE(std::isnan(batch.children.at(0).share_of_parent));
}

TEST(Summary, HintsOfSessions) {
  Summarizer summarizer;
  std::vector<Span> spans = {span(1, 0, "session", 0, 1), span(2, 0, "session", 0, 1)};
  spans[0].attrs = spans[1].attrs = R"("pid":1,"sonde.hint":"do this")";
  summarizer.add(spans);
  EXPECT_EQ(summarizer.finish().hints, std::vector<std::string>{"do this"});
}

TEST(Summary, OneSpanHasItsOwnQuantiles) {
  Summarizer summarizer;
  summarizer.add(std::vector<Span>{span(1, 0, "a", 0, 123)});
  const SummaryNode node = summarizer.finish().ranks.at(0).roots.at(0);
  EXPECT_EQ(node.p50_ns, 123'000);
  EXPECT_EQ(node.p95_ns, 123'000);
}

TEST(Summary, ParentsMayComeBatchesLater) {
  EXPECT_EQ(shape_of({{span(3, 2, "forward", 0, 4)},
                      {},
                      {span(2, 1, "step", 0, 10)},
                      {span(1, 0, "session", 0, 30)}}),
            "session 1 30 (step 1 10 (forward 1 4))");
}

TEST(Summary, AParentThatNeverComesLeavesRoots) {
  EXPECT_EQ(
      shape_of({{span(3, 2, "step", 0, 4), span(4, 2, "step", 4, 8), span(5, 9, "step", 8, 9)}}),
      "step 3 9");
}

TEST(Summary, AThreadsSpansMayStandBehindTheirParent) {
  // One batch, grouped by thread: the session closed after the loader's spans but is written first.
  EXPECT_EQ(shape_of({{span(1, 0, "session", 0, 30), span(2, 1, "load", 0, 5),
                       span(3, 2, "read", 0, 4)}}),
            "session 1 30 (load 1 5 (read 1 4))");
}

TEST(Summary, AChildMayOutliveItsParent) {
  // A task that goes on after the scope it was made in; even after the whole session.
  EXPECT_EQ(shape_of({{span(2, 1, "serve", 0, 10), span(1, 0, "session", 0, 20)},
                      {span(4, 3, "reply", 5, 25), span(3, 2, "task", 5, 30)}}),
            "session 1 20 (serve 1 10 (task 1 25 (reply 1 20)))");
}

TEST(Summary, OpenSpansGiveThePlaceButNoTime) {
  Summarizer summarizer;
  summarizer.add(std::vector<Span>{span(2, 1, "step", 0, 10)});
  summarizer.add(std::vector<Span>{span(1, 0, "session", 0, model::kNone)});
  const SummaryNode node = summarizer.finish().ranks.at(0).roots.at(0);
  EXPECT_EQ(node.open, 1u);
  EXPECT_EQ(node.count, 0u);
  EXPECT_EQ(node.min_ns, 0);
  EXPECT_EQ(node.children.at(0).name, "step");
  EXPECT_DOUBLE_EQ(node.children.at(0).share_of_parent, 1.0) << "of what is known so far";
}

TEST(Summary, RanksApart) {
  Summarizer summarizer;
  summarizer.add(
      std::vector<Span>{on_rank(1, span(1, 0, "a", 0, 1)), on_rank(0, span(2, 0, "a", 0, 2))});
  const Summary summary = summarizer.finish();
  ASSERT_EQ(summary.ranks.size(), 2u);
  EXPECT_EQ(summary.ranks[0].rank, 0);
  EXPECT_EQ(shape(summary.ranks[1].roots), "a 1 1");
}

TEST(Summary, OnlyOneNameWhereverItIs) {
  Summarizer summarizer;
  summarizer.add(std::vector<Span>{span(3, 2, "io", 0, 1), span(2, 1, "step", 0, 4),
                                   span(4, 1, "io", 5, 7), span(6, 5, "x", 7, 8),
                                   span(5, 4, "io", 7, 9), span(1, 0, "session", 0, 10)});
  const Summary summary = summarizer.finish("io");
  EXPECT_EQ(shape(summary.ranks.at(0).roots), "io 2 3 (io 1 2 (x 1 1))");
  Summarizer other;
  other.add(std::vector<Span>{span(1, 0, "a", 0, 1)});
  EXPECT_TRUE(other.finish("b").ranks.empty());
}

TEST(Summary, WaitingIsBounded) {
  Summarizer summarizer({.max_waiting = 10});
  for (std::uint64_t i = 1; i <= 1000; ++i)
    summarizer.add(std::vector<Span>{span(i, 100'000 + i, "lost", 0, 1)});
  const Summary summary = summarizer.finish();
  EXPECT_GT(summary.orphans, 900u);
  std::uint64_t counted = 0;
  const std::function<void(const std::vector<SummaryNode>&)> count = [&](const auto& nodes) {
    for (const SummaryNode& node : nodes) {
      counted += node.count;
      count(node.children);
    }
  };
  count(summary.ranks.at(0).roots);
  EXPECT_EQ(counted, 1000u) << "given up on, not lost";
}

TEST(Summary, ManyNamesAreFolded) {
  std::deque<std::string> names;
  std::vector<Span> spans;
  for (std::uint64_t i = 1; i <= 70'000; ++i)
    spans.push_back(span(i, 0, names.emplace_back("batch_" + std::to_string(i)), 0, 1));
  Summarizer summarizer;
  summarizer.add(spans);
  const Summary summary = summarizer.finish();
  EXPECT_TRUE(summary.names_folded);
  const auto& roots = summary.ranks.at(0).roots;
  EXPECT_LE(roots.size(), 257u);
  EXPECT_EQ(roots.front().name, "(other names)");
}

TEST(Summary, CyclesAndSelfParentsEnd) {
  Summarizer summarizer;
  summarizer.add(std::vector<Span>{span(1, 1, "self", 0, 1), span(2, 3, "a", 0, 1),
                                   span(3, 2, "b", 0, 1), span(4, 2, "c", 0, 1),
                                   span(2, 3, "a", 0, 1)});
  EXPECT_EQ(summarizer.finish().spans, 5u);
}

TEST(Summary, DeepChainsAreCutNotRecursed) {
  std::vector<Span> spans;
  for (std::uint64_t i = 1; i <= 100'000; ++i)
    spans.push_back(span(i, i + 1, "deep", 0, static_cast<std::int64_t>(i)));
  Summarizer summarizer;
  summarizer.add(spans);
  const Summary summary = summarizer.finish();
  EXPECT_EQ(summary.spans, 100'000u);
  EXPECT_GT(summary.orphans, 0u);
}

}  // namespace
}  // namespace sonde::analysis
