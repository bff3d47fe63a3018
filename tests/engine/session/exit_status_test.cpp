#include "engine/session/exit_status.h"

#include <stdlib.h>
#include <sys/wait.h>

#include <string>

#include <gtest/gtest.h>

#include "tests/engine/support/running_session.h"

namespace sonde::session {
namespace {

using testing::Child;
using testing::engine;
using testing::files_in;
using testing::find_span;
using testing::read_spool;
using testing::spool_to;
using testing::SpoolContents;
using testing::TempDir;

constexpr base::Id kSession = {1, 2};

std::string batch(std::string_view attrs) {
  return R"({"spans":[{"id":"00000000000000010000000000000003","attrs":{"ended_by":"exit"}},)"
         R"({"id":"00000000000000010000000000000002","name":"s","attrs":{)" +
         std::string(attrs) + R"(}}]})";
}

TEST(ExitStatus, StandsBesideWhatEndedIt) {
  EXPECT_EQ(with_exit_status(batch(R"("ended_by":"exit","k":1)"), kSession, 3),
            batch(R"("ended_by":"exit","exit_code":3,"k":1)"));
  EXPECT_EQ(with_exit_status(batch(R"("a":"b","ended_by":"exception")"), kSession, 1),
            batch(R"("a":"b","ended_by":"exception","exit_code":1)"));
  EXPECT_EQ(with_exit_status(batch(R"("ended_by":"exit")"), kSession, 256 + 7),
            batch(R"("ended_by":"exit","exit_code":7)"));
}

TEST(ExitStatus, OfZeroIsAReturn) {
  for (const char* before : {R"("ended_by":"exit")", R"("ended_by":"exception")"})
    EXPECT_EQ(with_exit_status(batch(before), kSession, 0),
              batch(R"("ended_by":"return","exit_code":0)"));
}

TEST(ExitStatus, AnotherSpanIsLeftAlone) {
  const std::string before =
      R"({"spans":[{"id":"00000000000000010000000000000002","attrs":{"text":"\"ended_by\":\"x\""},)"
      R"("rank":0},{"id":"00000000000000010000000000000003","attrs":{"ended_by":"exit"}}]})";
  EXPECT_EQ(with_exit_status(before, kSession, 3), "");
  const std::string without =
      R"({"spans":[{"id":"00000000000000010000000000000002","rank":0},)"
      R"({"id":"00000000000000010000000000000003","attrs":{"ended_by":"exit"}}]})";
  EXPECT_EQ(with_exit_status(without, kSession, 3), "");
}

TEST(ExitStatus, NothingIsMadeUp) {
  EXPECT_EQ(with_exit_status(batch(R"("k":1)"), kSession, 3), "");
  EXPECT_EQ(with_exit_status(batch(R"("ended_by":"exit")"), {4, 4}, 3), "");
  EXPECT_EQ(with_exit_status("", kSession, 3), "");
}

std::string attrs_after(const std::function<void()>& end) {
  const TempDir dir;
  Child child([&](const Child::Say&) {
    engine().start(spool_to(dir.path()));
    engine().annotate({{"ended_by", "\"exit\""}});
    engine().await_exit_status();
    testing::stop();
    end();
  });
  child.wait();
  EXPECT_TRUE(files_in(dir.path() + "/live").empty());
  const SpoolContents spool = read_spool(dir.path());
  const model::Span* session = find_span(spool.spans, "sonde.session");
  return session == nullptr ? "no session" : std::string(session->attrs);
}

TEST(ExitStatus, OfAProcess) {
  EXPECT_EQ(attrs_after([] { ::exit(5); }), R"("ended_by":"exit","exit_code":5)");
  EXPECT_EQ(attrs_after([] { ::exit(0); }), R"("ended_by":"return","exit_code":0)");
  EXPECT_EQ(attrs_after([] { ::_exit(5); }), R"("ended_by":"exit")");
  EXPECT_EQ(attrs_after([] { ::raise(SIGKILL); }), R"("ended_by":"exit")");
}

TEST(ExitStatus, OfAForkedChildIsItsOwn) {
  EXPECT_EQ(attrs_after([] {
              if (const pid_t child = ::fork(); child != 0) {
                ::waitpid(child, nullptr, 0);
                ::_exit(0);
              }
              ::exit(9);
            }),
            R"("ended_by":"exit")");
}

}  // namespace
}  // namespace sonde::session
