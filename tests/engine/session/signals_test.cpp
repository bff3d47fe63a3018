#include "engine/session/signals.h"

#include <dlfcn.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/spool/recovery.h"
#include "tests/engine/support/captures.h"
#include "tests/engine/support/running_session.h"

namespace {
std::atomic<bool> g_raise_in_timer{false};
// Looked up before main(): signal handlers call it, and dlsym() must not run in one.
using SetTimer = int (*)(timer_t, int, const itimerspec*, itimerspec*);
const auto g_set_timer = reinterpret_cast<SetTimer>(::dlsym(RTLD_NEXT, "timer_settime"));
}  // namespace

// Stands in for that of the C library, so that a test can send a signal at this moment.
extern "C" int timer_settime(timer_t timer, int flags, const itimerspec* value,
                             itimerspec* old) noexcept {
  if (g_raise_in_timer.exchange(false)) ::raise(SIGTERM);
  return g_set_timer(timer, flags, value, old);
}

namespace sonde::session {
namespace {

using testing::Child;
using testing::engine;
using testing::files_in;
using testing::find_span;
using testing::in_child;
using testing::read_spool;
using testing::TempDir;

Options watched(const std::string& output_dir) {
  Options options = testing::spool_to(output_dir);
  options.handle_signals = true;
  options.flush_interval_ns = 3'600'000'000'000;  // nothing but the signal makes it write
  return options;
}

bool died_of(int status, int number) { return WIFSIGNALED(status) && WTERMSIG(status) == number; }

struct sigaction current_action() {
  struct sigaction action;
  ::sigaction(SIGTERM, nullptr, &action);
  return action;
}

TEST(Signals, TerminatedRunIsCompleteAndDiedOfTheSignal) {
  const TempDir dir;
  Child child([&](const Child::Say& say) {
    engine().start(watched(dir.path()));
    for (int i = 0; i < 1000; ++i) testing::close(testing::open("work"));
    testing::open("outer");
    testing::mark("loss", 0.5);
    testing::open("inner");
    say();
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(child.heard());
  const std::uint64_t start = base::monotonic_ns();
  EXPECT_TRUE(died_of(child.kill_and_wait(SIGTERM), SIGTERM));
  EXPECT_LT(base::monotonic_ns() - start, 4'000'000'000u) << "not by running out of patience";
  const auto spool = read_spool(dir.path());
  EXPECT_EQ(spool.spans.size(), 1003u);
  EXPECT_EQ(spool.marks.size(), 1u);
  ASSERT_NE(find_span(spool.spans, "inner"), nullptr);
  EXPECT_EQ(find_span(spool.spans, "inner")->attrs, R"("sonde.closed_by":"shutdown")");
  EXPECT_TRUE(files_in(dir / "live").empty()) << "nothing is left to recover";
}

TEST(Signals, WhileEveryThreadRecords) {
  const TempDir dir;
  Child child([&](const Child::Say& say) {
    engine().start(watched(dir.path()));
    for (int t = 0; t < 2; ++t) {
      std::thread([] {
        for (;;) testing::close(testing::open("work"));
      }).detach();
    }
    ::usleep(20'000);
    say();
    for (;;) testing::close(testing::open("work"));
  });
  ASSERT_TRUE(child.heard());
  EXPECT_TRUE(died_of(child.kill_and_wait(SIGTERM), SIGTERM));
  spool::recover_directory(dir.path());
  EXPECT_NE(find_span(read_spool(dir.path()).spans, "sonde.session"), nullptr);
}

TEST(Signals, SecondOneEndsItAtOnce) {
  const TempDir dir;
  Child child([&](const Child::Say& say) {
    Options options = watched(dir.path());
    options.on_batch = [](std::string_view) { testing::sleep_for_ever(); };  // a sink that hangs
    engine().start(options);
    testing::close(testing::open("work"));
    say();
    for (;;) ::usleep(1000);
  });
  ASSERT_TRUE(child.heard());
  child.signal(SIGTERM);
  ::usleep(200'000);
  EXPECT_TRUE(died_of(child.kill_and_wait(SIGTERM), SIGTERM));
  spool::recover_directory(dir.path());
  const auto spool = read_spool(dir.path());
  EXPECT_NE(find_span(spool.spans, "work"), nullptr);
  EXPECT_NE(find_span(spool.spans, "sonde.session"), nullptr) << "the journal had it";
}

// All waiting together ends before the five seconds are over after which the signal kills.
TEST(Signals, WhatIsWaitedForIsWrittenEvenIfEverythingIsSlow) {
  const TempDir dir;
  Child child([&](const Child::Say& say) {
    Options options = watched(dir.path());
    options.on_batch = [](std::string_view) { testing::sleep_for_ever(); };
    options.on_termination = [](std::uint64_t deadline_ns) {
      EXPECT_GT(deadline_ns, base::monotonic_ns() + 2'300'000'000);
      ::usleep(2'300'000);
      snapshot::Capture capture = testing::capture_of(3);
      const auto never = std::make_shared<std::atomic<bool>>(false);
      capture.pending = std::make_unique<testing::Switch>(never);
      capture.blob = std::make_unique<testing::Switch>(never);
      engine().add_capture(std::move(capture));
    };
    engine().start(options);
    testing::close(testing::open("work"));
    say();
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(child.heard());
  EXPECT_TRUE(died_of(child.kill_and_wait(SIGTERM), SIGTERM));
  EXPECT_EQ(testing::count_in(dir.path()), 3u);
  EXPECT_TRUE(files_in(dir / "live").empty()) << "nothing is left to recover";
}

TEST(Signals, PatienceEnds) {
  const TempDir dir;
  Child child([&](const Child::Say& say) {
    Options options = watched(dir.path());
    options.on_batch = [](std::string_view) { testing::sleep_for_ever(); };
    engine().start(options);
    testing::close(testing::open("work"));
    say();
    for (;;) ::usleep(1000);
  });
  ASSERT_TRUE(child.heard());
  const std::uint64_t start = base::monotonic_ns();
  EXPECT_TRUE(died_of(child.kill_and_wait(SIGTERM), SIGTERM));
  EXPECT_LT(base::monotonic_ns() - start, 10'000'000'000u);
}

// During the stop no thread waits for the signal any more; it must not be forgotten.
TEST(Signals, DuringTheStopIsNotSwallowed) {
  for (int round = 0; round < 10; ++round) {
    const TempDir dir;
    Child child([&](const Child::Say& say) {
      engine().start(watched(dir.path()));
      for (int i = 0; i < 3000; ++i) testing::close(testing::open("work"));
      say();
      testing::stop();
      testing::sleep_for_ever();
    });
    ASSERT_TRUE(child.heard());
    ::usleep(static_cast<useconds_t>(round) * 700);
    const std::uint64_t start = base::monotonic_ns();
    EXPECT_TRUE(died_of(child.kill_and_wait(SIGTERM), SIGTERM));
    EXPECT_LT(base::monotonic_ns() - start, 4'000'000'000u);
    spool::recover_directory(dir.path());
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 3001u);
  }
}

// The last moment at which the handler might have taken it: the timers are being disarmed.
TEST(Signals, WhileTheHandlersAreRemovedIsNotSwallowed) {
  Child child([&](const Child::Say&) {
    watch_termination();
    g_raise_in_timer.store(true);
    unwatch_termination();
    EXPECT_FALSE(g_raise_in_timer.load()) << "no timer was disarmed";
  });
  EXPECT_TRUE(died_of(child.wait(), SIGTERM));
}

std::atomic<int> g_host_calls{0};
void host_handler(int) { g_host_calls.fetch_add(1); }

TEST(Signals, HandlerOfTheHostStaysTheHosts) {
  const TempDir dir;
  in_child([&] {
    ::signal(SIGTERM, host_handler);
    engine().start(watched(dir.path()));
    EXPECT_EQ(current_action().sa_handler, host_handler);
    ::raise(SIGTERM);
    EXPECT_EQ(g_host_calls.load(), 1);
    EXPECT_TRUE(engine().active());
    testing::stop();
    EXPECT_EQ(current_action().sa_handler, host_handler);
  });
}

TEST(Signals, HandlerInstalledLaterStaysToo) {
  const TempDir dir;
  in_child([&] {
    engine().start(watched(dir.path()));
    ::signal(SIGTERM, host_handler);
    testing::stop();
    EXPECT_EQ(current_action().sa_handler, host_handler);
  });
}

TEST(Signals, IgnoredStaysIgnored) {
  const TempDir dir;
  in_child([&] {
    ::signal(SIGTERM, SIG_IGN);
    engine().start(watched(dir.path()));
    EXPECT_EQ(current_action().sa_handler, SIG_IGN);
    testing::stop();
  });
}

TEST(Signals, GivenBackAfterTheStop) {
  const TempDir dir;
  in_child([&] {
    EXPECT_EQ(current_action().sa_handler, SIG_DFL);
    for (int i = 0; i < 3; ++i) {
      engine().start(watched(dir.path()));
      EXPECT_NE(current_action().sa_handler, SIG_DFL);
      testing::stop();
      EXPECT_EQ(current_action().sa_handler, SIG_DFL);
    }
  });
}

TEST(Signals, ForkedChildDiesTheOrdinaryWay) {
  const TempDir dir;
  in_child([&] {
    engine().start(watched(dir.path()));
    engine().flush();
    testing::close(testing::open("parent's"));
    Child child([&](const Child::Say& say) {
      EXPECT_EQ(current_action().sa_handler, SIG_DFL);
      say();
      testing::sleep_for_ever();
    });
    ASSERT_TRUE(child.heard());
    const std::uint64_t start = base::monotonic_ns();
    EXPECT_TRUE(died_of(child.kill_and_wait(SIGTERM), SIGTERM));
    EXPECT_LT(base::monotonic_ns() - start, 2'000'000'000u);
    EXPECT_TRUE(files_in(dir / "spool", ".json").empty()) << "and wrote nothing of its parent's";
    testing::stop();
  });
}

}  // namespace
}  // namespace sonde::session
