#include "engine/report/autopsy.h"

#include <string_view>

#include <gtest/gtest.h>

#include "engine/model/ending.h"
#include "tests/engine/support/spans.h"

namespace sonde::report {
namespace {

using model::Autopsy;
using model::Fate;
using model::ProcessState;
using sonde::testing::mark;
using sonde::testing::span;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kStart = 1'794'728'575 * kSecond;

model::Span at(model::Span span, std::int64_t start_s, std::int64_t end_s = 0) {
  span.start_ns = kStart + start_s * kSecond;
  span.end_ns = end_s == 0 ? model::kNone : kStart + end_s * kSecond;
  return span;
}

ProcessState dead_process() {
  ProcessState process;
  process.pid = 42;
  process.rank = 1;
  process.world_size = 2;
  process.host = "node-7";
  process.started_ns = kStart;
  process.last_sign_ns = kStart + 100 * kSecond;
  model::Span epoch = at(span(2, 1, "epoch", 0, 0, 3), 10),
              forward = at(span(3, 2, "forward", 0, 0), 99);
  epoch.thread_id = forward.thread_id = 1234;
  epoch.attrs = R"("lr":0.1)";
  process.open = {{at(span(1, 0, "cirron.session", 0, 0), 0), 0, 0, false, true},
                  {epoch, 77, 1, false, false},
                  {forward, 77, 1, false, false},
                  {at(span(4, 1, "serve", 0, 0), 40), 0, 5, true, false}};
  process.last_spans = {at(span(5, 2, "data_load", 0, 0), 97, 98)};
  process.last_marks = {mark(1, 5, "loss", 0.5), mark(2, 2, "lr", 0.25)};
  process.last_marks[1].ts_ns = kStart + 97 * kSecond;
  process.unflushed_spans = 3;
  process.unflushed_marks = 1;
  return process;
}

Autopsy autopsy_of(ProcessState process) {
  Autopsy autopsy;
  autopsy.source = "out";
  autopsy.now_ns = kStart + 300 * kSecond;
  autopsy.processes.push_back(std::move(process));
  return autopsy;
}

TEST(AutopsyText, Nothing) {
  Autopsy autopsy;
  autopsy.source = "out";
  EXPECT_EQ(autopsy_text(autopsy),
            "nothing to report in out: no process is running there, and every process that died "
            "has been recovered\n");
}

TEST(AutopsyText, ADeadProcessAndItsRecovery) {
  Autopsy autopsy = autopsy_of(dead_process());
  autopsy.moved.journals = 1;
  autopsy.moved.spans = 3;
  autopsy.moved.marks = 1;
  autopsy.moved.open_scopes = 4;
  autopsy.moved.files = {"1-2.json"};
  EXPECT_EQ(
      autopsy_text(autopsy),
      "pid 42, rank 1 of 2, on node-7: DEAD\n"
      "  started            2026-11-15 07:42:55.000 UTC\n"
      "  last sign of life  2026-11-15 07:44:35.000 UTC (3m 20s ago)\n"
      "  It died some time between then and now; the exact time is not known. The cause is not "
      "recorded here:\n"
      "  look at dmesg and at the scheduler's log for an OOM kill, at the program's own output for "
      "anything else.\n"
      "  open when it died:\n"
      "    cirron.session - open for 1m 40s\n"
      "    thread 1234 (tid 77)\n"
      "      epoch[3] - open for 1m 30s {\"lr\":0.1}\n"
      "        forward - open for 1.00s\n"
      "    asyncio task (stack 5)\n"
      "      serve - open for 1m 00s\n"
      "  last closed spans, the newest last:\n"
      "    2026-11-15 07:44:33.000 UTC  data_load - 1.00s {loss=0.5000}\n"
      "  last marks on other scopes:\n"
      "    2026-11-15 07:44:32.000 UTC  lr=0.2500 on epoch[3]\n"
      "  not yet in the spool: 3 spans, 1 mark\n"
      "\n"
      "moved into the spool: 3 spans, 1 mark and 4 scopes that had been open, from 1 journal\n"
      "  1-2.json\n"
      "see them with: sonde trace out\n");
}

TEST(AutopsyText, MarksOfSpansThatClosedEarlier) {
  ProcessState process = dead_process();
  process.marked_spans = {span(7, 2, "step", 0, 1, 12)};
  process.last_marks.push_back(mark(3, 7, "loss", 0.125));
  process.last_marks.push_back(mark(4, 8, "loss", 0.25));
  process.last_marks.push_back(mark(5, 9, "loss", 0.5));
  for (model::Mark& each : process.last_marks) each.ts_ns = kStart;
  const std::string text = autopsy_text(autopsy_of(process));
  EXPECT_NE(text.find("  last marks on other scopes:\n"
                      "    2026-11-15 07:42:55.000 UTC  lr=0.2500 on epoch[3]\n"
                      "    2026-11-15 07:42:55.000 UTC  loss=0.1250 on step[12]\n"
                      "  last marks of spans that closed earlier:\n"
                      "    2026-11-15 07:42:55.000 UTC  loss=0.2500\n"
                      "    2026-11-15 07:42:55.000 UTC  loss=0.5000\n"
                      "  not yet"),
            std::string::npos)
      << text;
}

TEST(AutopsyText, ARunningProcessIsMeasuredUntilNow) {
  ProcessState process = dead_process();
  process.fate = Fate::kRunning;
  const std::string text = autopsy_text(autopsy_of(process));
  EXPECT_NE(text.find("on node-7: running\n"), std::string::npos);
  EXPECT_NE(text.find("open now:\n    cirron.session - open for 5m 00s"), std::string::npos);
  EXPECT_EQ(text.find("died"), std::string::npos);
  EXPECT_EQ(text.find("moved"), std::string::npos);
}

TEST(AutopsyText, ARunThatEndedButCouldNotWriteIsNotDead) {
  ProcessState process = dead_process();
  process.fate = Fate::kEnded;
  process.open.clear();
  Autopsy autopsy = autopsy_of(process);
  autopsy.kept = true;
  std::string text = autopsy_text(autopsy);
  EXPECT_TRUE(text.starts_with(
      "pid 42, rank 1 of 2, on node-7: ended, 4 records were left in the journal\n"))
      << text;
  EXPECT_EQ(text.find("died"), std::string::npos) << text;
  EXPECT_NE(text.find("nothing was moved (--keep)"), std::string::npos) << text;
  autopsy.processes.front().moved = true;
  text = autopsy_text(autopsy);
  EXPECT_NE(text.find("4 records were left in the journal and are now recovered\n"),
            std::string::npos)
      << text;
  EXPECT_NE(autopsy_json(autopsy).find(R"("fate":"ended")"), std::string::npos);
}

TEST(AutopsyText, KeptAndLost) {
  ProcessState process = dead_process();
  process.open.clear();
  process.lost_records = 12;
  process.damaged = 1;
  Autopsy autopsy = autopsy_of(process);
  autopsy.kept = true;
  const std::string text = autopsy_text(autopsy);
  EXPECT_NE(text.find("  no scope was open\n"), std::string::npos);
  EXPECT_NE(text.find("lost while it ran, because its buffers were full: 12 records"),
            std::string::npos);
  EXPECT_NE(text.find("unreadable in its journal: 1 record\n"), std::string::npos);
  EXPECT_TRUE(text.ends_with(
      "nothing was moved (--keep); to move these records into the spool: sonde autopsy out\n"))
      << text;
}

TEST(AutopsyText, WhatRecoveryCouldNotRead) {
  Autopsy autopsy = autopsy_of(dead_process());
  autopsy.moved.journals = 1;
  EXPECT_EQ(autopsy_text(autopsy).find("lost"), std::string::npos);
  autopsy.moved.damaged = 2;
  const std::string text = autopsy_text(autopsy);
  EXPECT_NE(text.find("from 1 journal\n"
                      "at least 2 records could not be read; what they held is lost\n"
                      "see them with: sonde trace out\n"),
            std::string::npos)
      << text;
}

TEST(AutopsyJson, Values) {
  Autopsy autopsy = autopsy_of(dead_process());
  autopsy.problems = {"a \"problem\""};
  autopsy.moved.damaged = 2;
  const std::string json = autopsy_json(autopsy);
  EXPECT_TRUE(json.starts_with(
      R"({"directory":"out","now_ns":1794728875000000000,"processes":[{"fate":"dead","pid":42,"rank":1,"world_size":2,"host":"node-7",)"))
      << json;
  EXPECT_NE(
      json.find(
          R"("name":"epoch","index":3,"start_ns":1794728585000000000,"end_ns":null,"thread_id":1234,"attrs":{"lr":0.1},"os_thread_id":77,"stack":1,"task":false,"session":false})"),
      std::string::npos)
      << json;
  EXPECT_NE(
      json.find(
          R"("last_marks":[{"span_id":"00000000000000000000000000000005","name":"loss","value":0.5,)"),
      std::string::npos)
      << json;
  EXPECT_TRUE(json.ends_with(
      R"("moved":{"kept":false,"journals":0,"spans":0,"marks":0,"open_scopes":0,"damaged":2,"files":[]},"problems":["a \"problem\""]})"
      "\n"))
      << json;
}

TEST(AutopsyText, AnExceptionThatNobodyCaught) {
  ProcessState process = dead_process();
  process.open[0].span.attrs = R"("exception":"RuntimeError","exception_message":"boom")";
  process.last_spans[0].attrs = process.open[0].span.attrs;
  const std::string text = autopsy_text(autopsy_of(process));
  EXPECT_NE(text.find("ago)\n  uncaught exception RuntimeError: boom\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("data_load - 1.00s {loss=0.5000} [ended by RuntimeError: boom]\n"),
            std::string::npos)
      << text;
}

Autopsy of_ended_processes() {
  Autopsy autopsy;
  autopsy.source = "out";
  constexpr std::string_view kAttrs[] = {R"("ended_by":"return","exit_code":0)",
                                         R"("ended_by":"shutdown")",
                                         R"("ended_by":"exit","exit_code":3)"};
  std::int64_t end = 0;
  for (const std::string_view attrs : kAttrs) {
    model::Span session = at(span(1, 0, "cirron.session", 0, 0), 0, end += 10);
    session.attrs = attrs;
    autopsy.ended.push_back({session, model::ending_of(session)});
  }
  return autopsy;
}

TEST(AutopsyText, ProcessesThatEnded) {
  const std::string text = autopsy_text(of_ended_processes());
  EXPECT_EQ(text.find("nothing to report"), std::string::npos) << text;
  EXPECT_TRUE(
      text.ends_with("recovered\n"
                     "processes that ended, the newest last:\n"
                     "  2026-11-15 07:43:05.000 UTC  pid 0, rank 0: returned\n"
                     "  2026-11-15 07:43:15.000 UTC  pid 0, rank 0: ended by the program\n"
                     "  2026-11-15 07:43:25.000 UTC  pid 0, rank 0: exit code 3\n"))
      << text;
}

TEST(AutopsyJson, ProcessesThatEnded) {
  const std::string json = autopsy_json(of_ended_processes());
  EXPECT_NE(json.find(R"("ended_by":"exit","exit_code":3,"signal":null,"exception":null,)"
                      R"("exception_message":null,"how":"exit code 3","failed":true}])"),
            std::string::npos)
      << json;
}

}  // namespace
}  // namespace sonde::report
