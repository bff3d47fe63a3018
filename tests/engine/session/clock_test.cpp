// A system clock that is stepped while a session runs. This binary brings its own clock_gettime.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include <gtest/gtest.h>

#include "tests/engine/support/running_session.h"

namespace {
std::atomic<long> g_step_seconds{0};
}

extern "C" int clock_gettime(clockid_t clock, timespec* out) noexcept {
  const long result = ::syscall(SYS_clock_gettime, clock, out);
  if (clock == CLOCK_REALTIME) out->tv_sec += g_step_seconds.load(std::memory_order_relaxed);
  return static_cast<int>(result);
}

namespace sonde::session {
namespace {

using testing::engine;
using testing::find_span;
using testing::in_child;
using testing::LogLines;
using testing::read_spool;
using testing::spool_to;
using testing::TempDir;

TEST(Clock, SteppedBackwardsNeitherReordersNorStretches) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    engine().start(spool_to(dir.path()));
    const record::ScopeHandle across = testing::open("across the step");
    testing::close(testing::open("before"));
    engine().flush();
    g_step_seconds.store(-3600);
    testing::close(testing::open("after"));
    testing::close(across);
    engine().flush();
    testing::close(testing::open("later"));
    engine().flush();
    EXPECT_EQ(engine().counters().clock_steps, 1u);
    EXPECT_EQ(LogLines::count("system clock was set"), 1u) << LogLines::all();
    testing::stop();

    const auto spool = read_spool(dir.path());  // in the order of the files' names
    EXPECT_EQ(
        testing::names_of(spool.spans),
        (std::vector<std::string>{"before", "after", "across the step", "later", "sonde.session"}));
    for (const model::Span& span : spool.spans) {
      EXPECT_GE(span.end_ns, span.start_ns);
      EXPECT_LT(span.end_ns - span.start_ns, 60'000'000'000);
    }
    EXPECT_GE(find_span(spool.spans, "after")->start_ns, find_span(spool.spans, "before")->end_ns);
    EXPECT_GE(find_span(spool.spans, "later")->start_ns,
              find_span(spool.spans, "across the step")->end_ns);
  });
}

TEST(Clock, SteppedForwardsLikewise) {
  const TempDir dir;
  in_child([&] {
    engine().start(spool_to(dir.path()));
    const record::ScopeHandle across = testing::open("across");
    g_step_seconds.store(86'400);
    testing::close(across);
    testing::stop();
    EXPECT_LT(find_span(read_spool(dir.path()).spans, "across")->duration_ns(), 60'000'000'000);
  });
}

TEST(Clock, NextSessionFollowsTheNewClock) {
  const TempDir dir;
  in_child([&] {
    engine().start(spool_to(dir / "one"));
    testing::stop();
    g_step_seconds.store(-3600);
    engine().start(spool_to(dir / "two"));
    testing::stop();
    const std::int64_t one = read_spool(dir / "one").spans.at(0).start_ns,
                       two = read_spool(dir / "two").spans.at(0).start_ns;
    EXPECT_LT(two, one - 3'500'000'000'000);
    EXPECT_EQ(engine().counters().clock_steps, 0u);
  });
}

}  // namespace
}  // namespace sonde::session
