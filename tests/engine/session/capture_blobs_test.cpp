// Captures with raw tensors on their way through a session, each test in a child process.
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/snapshot/blob_copy.h"
#include "tests/engine/support/captures.h"
#include "tests/engine/support/refuse.h"
#include "tests/engine/support/running_session.h"

namespace sonde::session {
namespace {

using snapshot::Capture;
using testing::capture_of;
using testing::count_in;
using testing::engine;
using testing::in_child;
using testing::LogLines;
using testing::read_spool;
using testing::RunningSession;
using testing::slow_flush;
using testing::snapshots_in;
using testing::soon;
using testing::stop;
using testing::TempDir;

std::unique_ptr<snapshot::BlobSource> blob_of(const std::vector<float>& values) {
  const auto size = static_cast<std::int64_t>(values.size());
  const snapshot::Tensor tensor{values.data(), snapshot::Element::kFloat32, 1, &size, nullptr};
  const std::uint64_t bytes = 4 * values.size();
  return snapshot::BlobCopy::take(engine().reserve_blob(bytes), {{"w0", "F32", {size}}},
                                  {&tensor, 1});
}

TEST(CapturesWithBlobs, RecordsNameTheFile) {
  const TempDir dir;
  in_child([&] {
    const RunningSession session(slow_flush(dir.path()));
    Capture capture = capture_of(2);
    capture.mode = "sampled";
    capture.in_blob = {true, false};
    engine().add_capture(std::move(capture), blob_of({1, 2, 3}));
    ASSERT_TRUE(soon([&] { return count_in(dir.path()) == 2; })) << "the writer wakes the drain";
    const std::string path = dir / "snapshots/00000000000000070000000000000008/weights.safetensors";
    EXPECT_TRUE(std::filesystem::exists(path));
    const std::vector<std::string> all = snapshots_in(read_spool(dir.path()));
    EXPECT_NE(all[0].find(R"("mode":"sampled")"), std::string::npos);
    EXPECT_NE(all[0].find(R"("blob_uri":"file://)" + path + '"'), std::string::npos) << all[0];
    EXPECT_NE(all[1].find(R"("mode":"stats")"), std::string::npos);
    EXPECT_EQ(engine().counters().blobs, 1u);
  });
}

TEST(CapturesWithBlobs, StopWritesThemAll) {
  const TempDir dir;
  in_child([&] {
    engine().start(slow_flush(dir.path()));
    for (std::uint64_t i = 0; i < 10; ++i) {
      Capture capture = capture_of(1);
      capture.span_id = {7, i};
      capture.in_blob = {true};
      engine().add_capture(std::move(capture), blob_of(std::vector<float>(1 << 20, 1.0f)));
    }
    stop();
    EXPECT_EQ(count_in(dir.path()), 10u);
    EXPECT_EQ(engine().counters().blobs, 10u);
    EXPECT_EQ(engine().counters().dropped_blobs, 0u);
  });
}

TEST(CapturesWithBlobs, BlobThatFailsLeavesTheStatistics) {
  const TempDir dir;
  std::ofstream(dir / "snapshots") << "in the way";
  in_child([&] {
    LogLines log;
    engine().start(slow_flush(dir.path()));
    for (int i = 0; i < 2; ++i) {
      Capture capture = capture_of(2);
      capture.mode = "full";
      capture.in_blob = {true, false};
      engine().add_capture(std::move(capture), blob_of({1}));
    }
    stop();
    const std::vector<std::string> all = snapshots_in(read_spool(dir.path()));
    ASSERT_EQ(all.size(), 4u);
    for (const std::string& record : all) {
      EXPECT_NE(record.find(R"("mode":"stats","stats":{)"), std::string::npos);
      EXPECT_NE(record.find(R"("blob_uri":null)"), std::string::npos);
    }
    EXPECT_EQ(engine().counters().dropped_blobs, 2u);
    EXPECT_EQ(LogLines::count("statistics are kept"), 1u) << LogLines::all();
  });
}

TEST(CapturesWithBlobs, OneThatCouldNotBeCopiedIsSaidAndCounted) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    engine().start(slow_flush(dir.path()));
    for (int i = 0; i < 2; ++i) {
      Capture capture = capture_of(2);
      capture.in_blob = {true, false};
      engine().add_capture(std::move(capture), nullptr);
    }
    engine().add_capture(capture_of(1), nullptr);  // no file was asked for
    stop();
    EXPECT_EQ(count_in(dir.path()), 5u);
    EXPECT_EQ(engine().counters().dropped_blobs, 2u);
    EXPECT_EQ(LogLines::count("raw tensors of a snapshot could not be copied"), 1u)
        << LogLines::all();
  });
}

TEST(CapturesWithBlobs, OneWithoutRoomIsCountedOnceAndSaidOnce) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    Options options = slow_flush(dir.path());
    options.blobs.max_waiting_bytes = 3;
    engine().start(options);
    Capture capture = capture_of(1);
    capture.in_blob = {true};
    EXPECT_FALSE(engine().reserve_blob(4));
    engine().add_capture(std::move(capture), nullptr);
    stop();
    EXPECT_EQ(engine().counters().dropped_blobs, 1u);
    EXPECT_EQ(LogLines::count("statistics are kept"), 1u) << LogLines::all();
    EXPECT_TRUE(LogLines::has("already wait to be written"));
  });
}

// A thread to write the file cannot be had, but the one that drains is there.
TEST(CapturesWithBlobs, WithoutAThreadForTheFileTheStatisticsAreWritten) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    engine().start(slow_flush(dir.path()));
    if (!testing::refuse_threads()) GTEST_SKIP() << "cannot filter calls here";
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, nullptr, &before);
    for (int i = 0; i < 2; ++i) {
      Capture capture = capture_of(2);
      capture.in_blob = {true, false};
      engine().add_capture(std::move(capture), blob_of({1, 2, 3}));
    }
    pthread_sigmask(SIG_SETMASK, nullptr, &after);
    EXPECT_EQ(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
    EXPECT_EQ(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
    stop();
    EXPECT_EQ(count_in(dir.path()), 4u);
    EXPECT_EQ(engine().counters().dropped_blobs, 2u);
    EXPECT_EQ(LogLines::count("cannot start a thread"), 1u) << LogLines::all();
    EXPECT_TRUE(LogLines::has("ulimit -u"));
  });
}

TEST(CapturesWithBlobs, WithoutADirectoryThereIsNoRoom) {
  in_child([] {
    LogLines log;
    Options options;
    options.handle_signals = false;
    EXPECT_FALSE(engine().reserve_blob(1)) << "no session";
    const RunningSession session(options);
    EXPECT_FALSE(engine().reserve_blob(1));
    EXPECT_FALSE(engine().reserve_blob(1));
    EXPECT_EQ(LogLines::count("no output directory for raw tensors"), 1u);
  });
}

}  // namespace
}  // namespace sonde::session
