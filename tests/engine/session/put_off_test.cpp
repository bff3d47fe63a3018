// A sink or a log handler that ends the session on the thread that moves its records.
#include "engine/session/put_off.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>

#include <gtest/gtest.h>

#include "engine/base/log.h"
#include "engine/session/engine.h"
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

TEST(PutOff, NothingIsPutOffOnAThreadThatMovesNoRecords) {
  EXPECT_FALSE(put_off([] {}));
  EXPECT_FALSE(take_put_off());
}

TEST(PutOff, ASinkThatIsCalledByTheDrainingThreadMayEndTheSession) {
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

TEST(PutOff, ALogHandlerOnTheDrainThreadMayEndTheSession) {
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

TEST(PutOff, TheDrainThreadAndAnotherThreadMayEndItAtTheSameTime) {
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

}  // namespace
}  // namespace sonde::session
