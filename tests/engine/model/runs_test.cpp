#include "engine/model/runs.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/support/spans.h"

namespace sonde::model {
namespace {

using sonde::testing::on_rank;
using sonde::testing::span;

Span of_process(std::int32_t pid, Span span) {
  span.pid = pid;
  return span;
}

Span session(std::uint64_t id, std::int32_t pid, std::int64_t start_us, std::int64_t end_us) {
  return of_process(pid, sonde::testing::session(id, "cirron.session", start_us, end_us));
}

// The run of each span.
std::vector<std::size_t> runs_of(const std::vector<Span>& spans) {
  Runs runs;
  for (const Span& span : spans) runs.add({&span, 1});
  runs.finish();
  std::vector<std::size_t> numbers;
  for (const Span& span : spans) numbers.push_back(runs.part_of(span).run);
  return numbers;
}

using Numbers = std::vector<std::size_t>;

TEST(Runs, OfNothing) {
  Runs runs;
  runs.finish();
  EXPECT_EQ(runs.count(), 0u);
}

TEST(Runs, SessionsOfARankAreRunsOldestFirst) {
  EXPECT_EQ(runs_of({session(1, 70, 50, 90), of_process(70, span(2, 1, "work", 60, 70)),
                     session(3, 60, 0, 40), of_process(60, span(4, 3, "work", 10, 20)),
                     session(5, 80, 100, kNone), of_process(80, span(6, 5, "work", 110, kNone))}),
            (Numbers{2, 2, 1, 1, 3, 3}));
}

TEST(Runs, RanksAtTheSameTimeAreOneRun) {
  const std::vector<Span> spans = {session(1, 10, 0, 40), on_rank(1, session(2, 11, 1, 41)),
                                   session(3, 20, 50, 90), on_rank(1, session(4, 21, 49, 80)),
                                   on_rank(2, session(5, 22, 51, 80))};
  EXPECT_EQ(runs_of(spans), (Numbers{1, 1, 2, 2, 2}));
  Runs runs;
  runs.add(spans);
  runs.finish();
  EXPECT_EQ(runs.count(), 2u);
  EXPECT_EQ(runs.count(0), 2u);
  EXPECT_EQ(runs.count(2), 1u) << "it was not there the first time";
  EXPECT_EQ(runs.count(3), 0u);
}

TEST(Runs, TwoSessionsOfARankAtTheSameTimeAreTwoRuns) {
  EXPECT_EQ(runs_of({session(1, 10, 0, 40), session(2, 20, 1, 41)}), (Numbers{1, 2}));
}

TEST(Runs, WhatAProcessRecordsBetweenItsSessionsIsOfTheNext) {
  EXPECT_EQ(runs_of({of_process(10, span(1, 0, "before", 0, 1)), session(2, 10, 5, 10),
                     of_process(10, span(3, 0, "between", 11, 12)), session(4, 10, 20, 30),
                     of_process(10, span(5, 0, "after", 31, 32))}),
            (Numbers{1, 1, 2, 2, 2}));
}

// A scope that is entered before the session begins has no parent either.
TEST(Runs, AScopeWithTheNameOfASessionIsNone) {
  EXPECT_EQ(runs_of({of_process(10, span(1, 0, "http.session", 0, 1)), session(2, 10, 5, 10),
                     of_process(10, span(3, 2, "work", 6, 7))}),
            (Numbers{1, 1, 1}));
}

TEST(Runs, AProcessWithoutASessionIsOne) {
  const std::vector<Span> spans = {of_process(10, span(1, 99, "epoch", 5, 9)),
                                   of_process(10, span(2, 99, "epoch", 1, 4)),
                                   session(3, 20, 10, 20)};
  EXPECT_EQ(runs_of(spans), (Numbers{1, 1, 2}));
  Runs runs;
  runs.add(spans);
  runs.finish();
  EXPECT_FALSE(runs.part_of(spans[0]).session);
  EXPECT_EQ(runs.part_of(spans[0]).start_ns, 1000);
}

TEST(Runs, AProcessThatCameLaterIsOfNone) {
  Runs runs;
  runs.add(std::vector<Span>{session(1, 10, 0, 1)});
  runs.finish();
  EXPECT_EQ(runs.run_of(session(1, 10, 0, 1)), 1u);
  EXPECT_EQ(runs.run_of(session(2, 20, 5, 6)), 0u);
}

TEST(Runs, TheIdThatThePlatformGave) {
  Span one = session(1, 10, 0, 1);
  one.attrs = R"("pid":10,"cirron.run_id":"r-17")";
  Runs runs;
  runs.add({&one, 1});
  runs.finish();
  EXPECT_EQ(runs.part_of(one).run_id, "r-17");
}

// A session with attributes, whose text is a literal.
Span with_attrs(std::string_view attrs, Span session) {
  session.attrs = attrs;
  return session;
}

constexpr std::string_view kMainA = R"("pid":1,"sonde.run":"a")",
                           kMainB = R"("pid":1,"sonde.run":"b")",
                           kChildA = R"("pid":1,"sonde.run":"a","sonde.process":"SpawnProcess-1")",
                           kChildB = R"("pid":1,"sonde.run":"b","sonde.process":"SpawnProcess-1")";

TEST(Runs, SessionsOfOneProgramAreOneRunWhateverTheirRanksAndTimes) {
  const std::vector<Span> spans = {with_attrs(kMainA, session(1, 10, 0, 40)),
                                   with_attrs(kChildA, session(2, 11, 5, 9)),
                                   with_attrs(kChildA, session(3, 12, 6, 50)),
                                   on_rank(1, with_attrs(kChildA, session(4, 13, 60, 70))),
                                   with_attrs(kMainB, session(5, 20, 7, 100))};
  EXPECT_EQ(runs_of(spans), (Numbers{1, 1, 1, 1, 2}));
  Runs runs;
  runs.add(spans);
  runs.finish();
  EXPECT_EQ(runs.count(0), 2u);
  EXPECT_EQ(runs.count(1), 1u);
  EXPECT_EQ(runs.part_of(spans[1]).process, "SpawnProcess-1");
}

TEST(Runs, ChildrenOfTwoProgramsAtTheSameTimeAreNoRanksOfEachOther) {
  EXPECT_EQ(runs_of({on_rank(1, with_attrs(kChildA, session(1, 11, 0, 40))),
                     with_attrs(kChildB, session(2, 20, 1, 41)),
                     with_attrs(kChildA, session(3, 10, 2, 42)),
                     on_rank(1, with_attrs(kChildB, session(4, 21, 3, 43)))}),
            (Numbers{1, 2, 1, 2}));
}

TEST(Runs, RanksOfALauncherAreOneRunThoughEachIsAProgram) {
  EXPECT_EQ(runs_of({with_attrs(kMainA, session(1, 10, 0, 40)),
                     on_rank(1, with_attrs(kMainB, session(2, 11, 1, 41))),
                     on_rank(1, with_attrs(kChildB, session(3, 12, 2, 30)))}),
            (Numbers{1, 1, 1}));
}

TEST(Runs, RanksOfTwoLaunchersAtTheSameTimeAreTwo) {
  constexpr std::string_view kOne = R"("pid":1,"sonde.launch":"localhost:29500")",
                             kTwo = R"("pid":1,"sonde.launch":"localhost:29501")";
  EXPECT_EQ(runs_of({with_attrs(kOne, session(1, 10, 0, 40)),
                     on_rank(1, with_attrs(kTwo, session(2, 21, 1, 41))),
                     with_attrs(kTwo, session(3, 20, 2, 42)),
                     on_rank(1, with_attrs(kOne, session(4, 11, 3, 43)))}),
            (Numbers{1, 2, 2, 1}));
}

}  // namespace
}  // namespace sonde::model
