// A sink or a log handler of the host that ends the session, or that never returns.
#include "engine/session/engine.h"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>

#include <gtest/gtest.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/session/delivery.h"
#include "tests/engine/support/refuse.h"
#include "tests/engine/support/running_session.h"
#include "tests/engine/support/test_sink.h"

namespace sonde::session {
namespace {

using testing::engine;
using testing::in_child;
using testing::read_spool;
using testing::record_many;
using testing::spool_to;
using testing::stop;
using testing::TempDir;
using testing::TestSink;
using testing::with_sink;

// One lock around the beginning and the end of sessions, as a host has it.
std::mutex g_lock;

void end_once() {
  const std::lock_guard lock(g_lock);
  if (engine().active()) stop();
}

// What a host does to end the session, on whatever thread it is.
void end() {
  if (!Engine::put_off_stop(end_once)) end_once();
}

bool is_over() {
  const std::lock_guard lock(g_lock);
  return !engine().active();
}

TEST(EndFromHost, ASinkMayEndTheSession) {
  const TempDir dir;
  in_child([&] {
    const auto sink = std::make_shared<TestSink>();
    sink->on_accept = [](const OutgoingBatch&) { end(); };
    engine().start(with_sink(spool_to(dir.path()), sink));
    record_many(10);
    engine().flush();
    while (!is_over()) ::usleep(1000);
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 11u);
  });
}

TEST(EndFromHost, ASinkThatIsCalledByTheDrainingThreadMayEndTheSession) {
  const TempDir dir;
  in_child([&] {
    if (!testing::refuse_threads()) GTEST_SKIP() << "cannot filter calls here";
    const auto sink = std::make_shared<TestSink>();
    sink->on_accept = [](const OutgoingBatch&) { end(); };
    engine().start(with_sink(spool_to(dir.path()), sink));
    record_many(10);
    engine().flush();
    EXPECT_FALSE(engine().active());
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 11u) << "with the session's own";
    engine().start(spool_to(dir.path()));
    record_many(1);
    stop();
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 13u) << "the next session is another one";
  });
}

// The drain thread has something to say: its journal was removed.
void make_it_speak(const TempDir& dir) {
  record_many(10);
  for (const auto& file : testing::files_in(dir / "live")) std::filesystem::remove(file);
  record::Journal::instance().wake().raise();
}

TEST(EndFromHost, ALogHandlerMayEndTheSession) {
  const TempDir dir;
  in_child([&] {
    base::set_log_handler([](base::LogLevel, std::string_view, std::string_view) { end(); });
    engine().start(spool_to(dir.path()));
    make_it_speak(dir);
    while (!is_over()) ::usleep(1000);
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 11u);
  });
}

std::atomic<bool> g_speaks{false}, g_main_ends{false};

TEST(EndFromHost, ALogHandlerAndAnotherThreadMayEndItAtTheSameTime) {
  const TempDir dir;
  in_child([&] {
    base::set_log_handler([](base::LogLevel, std::string_view, std::string_view) {
      g_speaks.store(true);
      while (!g_main_ends.load()) ::usleep(1000);
      end();
    });
    engine().start(spool_to(dir.path()));
    make_it_speak(dir);
    while (!g_speaks.load()) ::usleep(1000);
    {
      const std::lock_guard lock(g_lock);
      g_main_ends.store(true);
      stop();
    }
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 11u);
  });
}

// -- a log handler that never returns: standard error is a pipe that nobody reads --

void block_messages() {
  base::set_log_handler([](base::LogLevel, std::string_view, std::string_view) {
    g_speaks.store(true);
    testing::sleep_for_ever();
  });
}

TEST(EndFromHost, ALogHandlerThatNeverReturnsHoldsUpNeitherTheSpoolNorTheEnd) {
  const TempDir dir;
  in_child([&] {
    block_messages();
    Options options = spool_to(dir.path());
    options.flush_interval_ns = 10'000'000;
    engine().start(options);
    make_it_speak(dir);
    while (!g_speaks.load()) ::usleep(1000);
    record_many(100);
    const std::uint64_t start = base::monotonic_ns();
    while (read_spool(dir.path()).spans.size() < 110) ::usleep(1000);
    engine().flush();
    engine().flush();
    stop();
    EXPECT_LT(base::monotonic_ns() - start, 4'000'000'000u) << "waited for once, for 2 s at most";
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 111u);
  });
}

TEST(EndFromHost, AStuckSinkAndAStuckLogHandlerHoldUpNothing) {
  const TempDir dir;
  in_child([&] {
    block_messages();
    const auto sink = std::make_shared<TestSink>();
    sink->on_accept = [](const OutgoingBatch&) { testing::sleep_for_ever(); };
    Options options = with_sink(spool_to(dir.path()), sink);
    options.flush_interval_ns = 1'000'000;
    engine().start(options);
    const std::size_t batches = Delivery::kMaxBatches + 10;
    for (std::size_t i = 1; i <= batches; ++i) {
      record_many(1);
      while (engine().counters().flushed_batches < i) ::usleep(200);
    }
    while (!g_speaks.load()) ::usleep(1000);  // "does not keep up"
    const std::uint64_t start = base::monotonic_ns();
    stop();
    EXPECT_LT(base::monotonic_ns() - start, 6'000'000'000u);
    EXPECT_EQ(read_spool(dir.path()).spans.size(), batches + 1);
    EXPECT_TRUE(testing::files_in(dir / "live").empty());
  });
}

TEST(EndFromHost, AMessageIsThereWhenFlushReturns) {
  const TempDir dir;
  in_child([&] {
    testing::LogLines log;
    Options options = spool_to(dir.path());
    options.flush_interval_ns = 3'600'000'000'000;
    engine().start(options);
    record_many(10);
    for (const auto& file : testing::files_in(dir / "live")) std::filesystem::remove(file);
    engine().flush();
    EXPECT_EQ(testing::LogLines::count("was removed"), 1u);
    stop();
  });
}

}  // namespace
}  // namespace sonde::session
