// Other threads flush while a session begins.
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/clock.h"
#include "engine/record/journal.h"
#include "engine/session/session.h"
#include "engine/session/shared.h"
#include "tests/engine/support/refuse.h"
#include "tests/engine/support/running_session.h"

namespace sonde::session {
namespace {

using testing::engine;
using testing::files_in;
using testing::in_child;
using testing::names_of;
using testing::read_spool;
using testing::spool_to;
using testing::stop;
using testing::TempDir;
using Names = std::vector<std::string>;

// Starts a session in `output_dir`, and calls flush() on another thread while the session begins.
// There is so little room for records that a flush() without a session would move them into the
// memory.
void start_during_a_flush(const std::string& output_dir, const std::function<void()>& start) {
  record::Journal& journal = record::Journal::instance();
  std::unique_lock backing(journal.backing());
  std::thread starter(start);
  // The session has made its journal's file and waits to move onto it.
  while (files_in(output_dir + "/live").empty()) std::this_thread::yield();
  std::vector<std::uint32_t> blocks;
  while (!journal.room_is_short()) blocks.push_back(journal.take_block());
  std::thread flusher([] { engine().flush(); });
  ::usleep(20'000);
  backing.unlock();
  starter.join();
  flusher.join();
  for (const std::uint32_t block : blocks) journal.free_block(block);
}

TEST(Beginning, AFlushMeanwhileLeavesTheRecordsToTheSession) {
  const TempDir dir;
  in_child([&] {
    engine();
    testing::close(testing::open("before"));
    start_during_a_flush(dir.path(), [&] { engine().start(spool_to(dir.path())); });
    EXPECT_EQ(names_of(read_spool(dir.path()).spans), (Names{"before"}));
    stop();
    EXPECT_EQ(names_of(read_spool(dir.path()).spans), (Names{"before", "sonde.session"}));
  });
}

TEST(Beginning, AFlushMeanwhileDoesNotWaitForAThreadThatCannotBeStarted) {
  const TempDir dir;
  in_child([&] {
    testing::LogLines log;
    engine();
    testing::close(testing::open("before"));
    const std::uint64_t began = base::monotonic_ns();
    start_during_a_flush(dir.path(), [&] {
      EXPECT_TRUE(testing::refuse_threads());  // for the thread that starts the session only
      engine().start(spool_to(dir.path()));
    });
    EXPECT_LT(base::monotonic_ns() - began, 10'000'000'000u);
    EXPECT_EQ(names_of(read_spool(dir.path()).spans), (Names{"before"}));
    stop();
  });
}

// A thread may find the session before begin() was called.
TEST(Beginning, AFlushOfASessionOnDemandThatHasNotBegunReturnsAtOnce) {
  const TempDir dir;
  in_child([&] {
    Options options = spool_to(dir.path());
    options.on_demand = true;
    Shared shared;
    Session session(shared, options);
    const std::uint64_t start = base::monotonic_ns();
    session.flush();
    EXPECT_LT(base::monotonic_ns() - start, 5'000'000'000u);
    EXPECT_TRUE(session.asleep());
    session.awaken();
    EXPECT_TRUE(session.asleep()) << "there is nothing to wake yet";
    EXPECT_TRUE(files_in(dir.path()).empty());
  });
}

}  // namespace
}  // namespace sonde::session
