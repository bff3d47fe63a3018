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
