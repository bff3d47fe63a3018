// Captures on their way through a session, in a child of its own each time.
#include "engine/session/captures.h"

#include <pthread.h>
#include <signal.h>

#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/snapshot/blob_copy.h"
#include "tests/engine/support/refuse.h"
#include "tests/engine/support/running_session.h"

namespace sonde::session {
namespace {

using snapshot::Capture;
using snapshot::Catalogue;
using testing::Child;
using testing::engine;
using testing::files_in;
using testing::in_child;
using testing::LogLines;
using testing::read_spool;
using testing::RunningSession;
using testing::spool_to;
using testing::SpoolContents;
using testing::stop;
using testing::TempDir;

constexpr base::Id kSpan{7, 8};

Capture capture_of(std::size_t tensors, const std::string& name = "w") {
  Catalogue catalogue(tensors);
  for (std::size_t i = 0; i < tensors; ++i)
    catalogue[i] = {name + std::to_string(i), "float32", {2, 3}, ""};
  Capture capture;
  capture.span_id = kSpan;
  capture.ts_ns = 5;
  capture.statistics.resize(tensors, snapshot::Statistics());
  capture.catalogue = std::make_shared<const Catalogue>(std::move(catalogue));
  return capture;
}

Capture capture_with_nan(const std::string& name) {
  Capture capture = capture_of(3, name);
  capture.statistics[1]->nan_count = 1;
  return capture;
}

// Ready when the test says so.
struct Switch : snapshot::Pending {
  explicit Switch(std::shared_ptr<std::atomic<bool>> on) : on_(std::move(on)) {}
  bool ready() noexcept override { return on_->load(); }
  void complete(Capture& capture, bool give_up) noexcept override {
    if (give_up) return;
    for (auto& all : capture.statistics) all.emplace().mean = 2.5;
  }
  std::shared_ptr<std::atomic<bool>> on_;
};

std::vector<std::string> snapshots_in(const SpoolContents& spool) {
  std::vector<std::string> all;
  for (const auto& batch : spool.batches)
    for (const model::Snapshot& snapshot : batch->snapshots) all.emplace_back(snapshot.json);
  return all;
}

std::size_t count_in(const std::string& directory) {
  return snapshots_in(read_spool(directory)).size();
}

// Looks every millisecond, for ten seconds at most.
template <typename Condition>
bool soon(Condition condition) {
  for (int i = 0; i < 10'000; ++i) {
    if (condition()) return true;
    ::usleep(1000);
  }
  return false;
}

Options slow_flush(const std::string& directory) {
  Options options = spool_to(directory);
  options.flush_interval_ns = 3'600'000'000'000;
  return options;
}

TEST(Captures, ReachTheSpoolAtOnce) {
  const TempDir dir;
  in_child([&] {
    const RunningSession session(slow_flush(dir.path()));
    engine().add_capture(capture_of(3));
    ASSERT_TRUE(soon([&] { return count_in(dir.path()) == 3; })) << "nobody flushed";
    const auto spool = read_spool(dir.path());
    EXPECT_EQ(spool.batches.at(0)->snapshots.at(2).span_id, kSpan);
    EXPECT_NE(snapshots_in(spool)[2].find(R"("tensor_name":"w2","shape":[2,3])"),
              std::string::npos);
    EXPECT_NE(spool.batches.at(0)->snapshots.at(0).id, spool.batches.at(0)->snapshots.at(1).id);
    EXPECT_EQ(engine().counters().snapshots, 3u);
  });
}

TEST(Captures, LargeModelIsManyFilesInOrder) {
  const TempDir dir;
  in_child([&] {
    engine().start(slow_flush(dir.path()));
    engine().add_capture(capture_of(10'000));
    engine().add_capture(capture_of(10, "other"));
    engine().flush();
    const auto spool = read_spool(dir.path());
    const std::vector<std::string> all = snapshots_in(spool);
    ASSERT_EQ(all.size(), 10'010u);
    for (std::size_t i = 0; i < 10'000; ++i) {
      const std::string name = R"("tensor_name":"w)" + std::to_string(i) + '"';
      ASSERT_NE(all[i].find(name), std::string::npos) << i;
    }
    for (const auto& batch : spool.batches) EXPECT_LE(batch->snapshots.size(), 1024u);
    stop();
    EXPECT_EQ(count_in(dir.path()), 10'010u) << "written once";
  });
}

TEST(Captures, StopWritesWhatFlushDidNot) {
  const TempDir dir;
  in_child([&] {
    for (int round = 1; round <= 20; ++round) {
      engine().start(slow_flush(dir.path()));
      engine().add_capture(capture_of(1));
      stop();
      ASSERT_EQ(count_in(dir.path()), static_cast<std::size_t>(round));
    }
  });
}

TEST(Captures, FromManyThreads) {
  const TempDir dir;
  in_child([&] {
    engine().start(spool_to(dir.path()));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 100; ++i) engine().add_capture(capture_of(5));
      });
    }
    for (std::thread& thread : threads) thread.join();
    stop();
    EXPECT_EQ(count_in(dir.path()), 2000u);
    EXPECT_EQ(engine().counters().snapshots, 2000u);
    EXPECT_EQ(engine().counters().dropped_snapshots, 0u);
  });
}

TEST(Captures, WaitForWhatIsUnderWay) {
  const TempDir dir;
  in_child([&] {
    const RunningSession session(slow_flush(dir.path()));
    const auto on = std::make_shared<std::atomic<bool>>(false);
    Capture slow = capture_of(2, "slow");
    slow.statistics.assign(2, std::nullopt);
    slow.pending = std::make_unique<Switch>(on);
    engine().add_capture(std::move(slow));
    engine().add_capture(capture_of(1));
    ASSERT_TRUE(soon([&] { return count_in(dir.path()) == 1; })) << "nobody waits for another";
    on->store(true);
    ASSERT_TRUE(soon([&] { return count_in(dir.path()) == 3; })) << "found without a flush";
    EXPECT_NE(snapshots_in(read_spool(dir.path()))[1].find(R"("mean":2.5)"), std::string::npos);
  });
}

TEST(Captures, FlushWaitsForThemAMoment) {
  const TempDir dir;
  in_child([&] {
    const RunningSession session(slow_flush(dir.path()));
    const auto on = std::make_shared<std::atomic<bool>>(false);
    Capture slow = capture_of(2);
    slow.pending = std::make_unique<Switch>(on);
    engine().add_capture(std::move(slow));
    std::thread later([on] {
      ::usleep(300'000);
      on->store(true);
    });
    engine().flush();
    EXPECT_EQ(count_in(dir.path()), 2u);
    later.join();

    Capture never = capture_of(1);
    never.pending = std::make_unique<Switch>(std::make_shared<std::atomic<bool>>(false));
    engine().add_capture(std::move(never));
    const std::uint64_t start = base::monotonic_ns();
    engine().flush();
    EXPECT_LT(base::monotonic_ns() - start, 10'000'000'000u);
    EXPECT_EQ(count_in(dir.path()), 2u);
  });
}

TEST(Captures, TerminationWritesWhatThereIs) {
  const TempDir dir;
  Child child([&](const Child::Say& say) {
    Options options = slow_flush(dir.path());
    options.handle_signals = true;
    engine().start(options);
    Capture never = capture_of(2, "never");
    never.statistics.assign(2, std::nullopt);
    never.pending = std::make_unique<Switch>(std::make_shared<std::atomic<bool>>(false));
    engine().add_capture(std::move(never));
    engine().add_capture(capture_of(1));
    say();
    for (;;) ::usleep(1000);
  });
  ASSERT_TRUE(child.heard());
  const int status = child.kill_and_wait(SIGTERM);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  const std::vector<std::string> all = snapshots_in(read_spool(dir.path()));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_NE(all[1].find(R"("stats":null)"), std::string::npos);
}

TEST(Captures, KilledARunLosesMilliseconds) {
  const TempDir dir;
  Child child([&](const Child::Say& say) {
    engine().start(slow_flush(dir.path()));
    engine().add_capture(capture_of(100));
    ::usleep(500'000);
    say();
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(child.heard());
  child.kill_and_wait();
  EXPECT_EQ(count_in(dir.path()), 100u);
}

TEST(Captures, WithoutASessionTheyAreCounted) {
  const TempDir dir;
  in_child([&] {
    engine().add_capture(capture_of(2));
    EXPECT_EQ(engine().counters().dropped_snapshots, 2u);
    engine().start(spool_to(dir.path()));
    EXPECT_EQ(engine().counters().dropped_snapshots, 0u);
    stop();
    engine().add_capture(capture_of(3));
    EXPECT_EQ(engine().counters().dropped_snapshots, 3u);
    EXPECT_EQ(count_in(dir.path()), 0u);
  });
}

TEST(Captures, SinksGetThemWithoutADirectory) {
  in_child([] {
    std::vector<std::string> batches;
    Options options;
    options.handle_signals = false;
    options.on_batch = [&](std::string_view json) { batches.emplace_back(json); };
    engine().start(options);
    engine().add_capture(capture_of(2));
    stop();
    ASSERT_EQ(batches.size(), 2u) << "the capture, and the session's span";
    const bool first = batches[0].find("tensor_name") != std::string::npos;
    EXPECT_NE(batches[first ? 0 : 1].find(R"("tensor_name":"w1")"), std::string::npos);
    EXPECT_EQ(engine().counters().snapshots, 2u);
  });
}

TEST(Captures, WithNobodyToReadThemTheyAreOnlyCounted) {
  in_child([] {
    Options options;
    options.handle_signals = false;
    const RunningSession session(options);
    engine().add_capture(capture_of(2000));
    engine().flush();
    EXPECT_EQ(engine().counters().snapshots, 2000u);
    EXPECT_EQ(engine().counters().flushed_batches, 0u);
  });
}

TEST(Captures, ForkedChildHasNone) {
  const TempDir dir;
  in_child([&] {
    engine().start(slow_flush(dir.path()));
    Capture never = capture_of(2);
    never.pending = std::make_unique<Switch>(std::make_shared<std::atomic<bool>>(false));
    engine().add_capture(std::move(never));
    in_child([&] {
      EXPECT_EQ(engine().counters().dropped_snapshots, 0u);
      engine().flush();
      engine().add_capture(capture_of(1));
      EXPECT_EQ(engine().counters().dropped_snapshots, 1u);
    });
    EXPECT_EQ(count_in(dir.path()), 0u);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  });
}

TEST(Captures, FullDiskLosesSnapshotsBeforeSpans) {
  TempDir dir;
  if (!dir.mount_small(1 << 20)) GTEST_SKIP() << "cannot mount a small file system here";
  in_child([&] {
    LogLines log;
    engine().start(slow_flush(dir.path()));
    testing::close(testing::open("before"));
    engine().flush();
    for (int i = 0; i < 10; ++i) engine().add_capture(capture_of(1000));
    testing::close(testing::open("after"));
    stop();
    const Counters all = engine().counters();
    EXPECT_GT(all.dropped_snapshots, 0u);
    EXPECT_EQ(all.snapshots + all.dropped_snapshots, 10'000u);
    EXPECT_TRUE(LogLines::has("snapshot records could not be written")) << LogLines::all();
    const auto spool = read_spool(dir.path());
    EXPECT_EQ(snapshots_in(spool).size(), all.snapshots);
    EXPECT_NE(testing::find_span(spool.spans, "before"), nullptr);
  });
}

TEST(Captures, TooManyAreDroppedAndSaid) {
  in_child([] {
    LogLines log;
    Captures captures;
    ASSERT_TRUE(captures.add(capture_of(Captures::kMaxRecords + 1))) << "one is always taken";
    ASSERT_FALSE(captures.add(capture_of(1)));
    EXPECT_EQ(captures.lost(), 1u);
    EXPECT_TRUE(LogLines::has("snapshot_drop_count"));
    model::Batch batch;
    captures.look();
    captures.collect(~std::size_t{0} >> 1, false, batch);
    EXPECT_TRUE(captures.add(capture_of(1)));
  });
}

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
    engine().add_capture(capture_of(1), nullptr);  // nobody wanted a file
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
    EXPECT_TRUE(LogLines::has("wait to be written"));
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

TEST(FirstNonFinite, IsSaidOnceAndMarked) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    std::vector<std::string> lines;
    Options options = slow_flush(dir.path());
    options.lines.push_back({{}, [&](const std::vector<std::string>& some) {
                               lines.insert(lines.end(), some.begin(), some.end());
                             }});
    engine().start(options);
    const record::ScopeHandle epoch =
        testing::open("epoch", {.index = 7, .flags = record::kHasIndex});
    testing::close(epoch);
    engine().flush();
    const base::Id span = testing::trace().spans.at(0).id;
    Capture bad = capture_with_nan("layer3.weight.grad");
    bad.span_id = span;
    bad.epoch = 7;
    bad.step = 3120;
    engine().add_capture(capture_of(4));
    engine().add_capture(std::move(bad));
    engine().add_capture(capture_with_nan("later"));
    engine().flush();
    const std::string text =
        "[cirron] first non-finite value: layer3.weight.grad1 at epoch[7] step[3120]";
    EXPECT_EQ(LogLines::all(), text + "\n");
    EXPECT_EQ(std::count(lines.begin(), lines.end(), text), 1);

    const auto spool = read_spool(dir.path());
    ASSERT_EQ(spool.marks.size(), 1u);
    EXPECT_EQ(spool.marks[0].name, "first_non_finite");
    EXPECT_EQ(spool.marks[0].text, "layer3.weight.grad1");
    EXPECT_EQ(spool.marks[0].attrs, R"("epoch":7,"step":3120)");
    EXPECT_EQ(spool.marks[0].span_id, span);
    EXPECT_FALSE(spool.marks[0].summary);
    const model::Batch shown = testing::trace();
    ASSERT_EQ(shown.marks.size(), 1u) << "on a span that was closed before";
    EXPECT_EQ(shown.marks[0].span_id, span);
    EXPECT_EQ(shown.marks[0].text, "layer3.weight.grad1");

    stop();
    engine().start(options);
    engine().add_capture(capture_with_nan("again"));
    stop();
    EXPECT_TRUE(LogLines::all().ends_with("[cirron] first non-finite value: again1\n"))
        << "what is not known is left out\n"
        << LogLines::all();
  });
}

TEST(FirstNonFinite, GradientsDoNotUseUpTheWordOnWeights) {
  in_child([] {
    using snapshot::Kind;
    LogLines log;
    Options options;
    options.handle_signals = false;
    engine().start(options);
    const auto add = [](const char* name, Kind kind, std::uint64_t span) {
      Capture bad = capture_with_nan(name);
      bad.kind = kind;
      bad.span_id = {0, span};
      engine().add_capture(std::move(bad), nullptr, true);
    };
    add("spoilt by a", Kind::kWeights, 1);
    add("a", Kind::kGradients, 1);
    engine().flush();
    EXPECT_EQ(LogLines::all(), "[cirron] first non-finite value: a1\n") << "the cause";
    stop();
    engine().start(options);
    add("b", Kind::kGradients, 2);
    add("c", Kind::kWeights, 3);
    add("d", Kind::kWeights, 4);
    engine().flush();
    EXPECT_EQ(LogLines::count("c1"), 1u);
    EXPECT_EQ(LogLines::count("d1"), 0u);
    stop();
  });
}

TEST(FirstNonFinite, OnAnOpenSpan) {
  in_child([] {
    Options options;
    options.handle_signals = false;
    const RunningSession session(options);
    const record::ScopeHandle epoch = testing::open("epoch");
    Capture bad = capture_with_nan("w");
    bad.span_id = testing::trace().spans.back().id;
    engine().add_capture(std::move(bad));
    engine().flush();
    EXPECT_EQ(testing::trace().marks.size(), 1u);
    testing::close(epoch);
    const model::Batch shown = testing::trace();
    ASSERT_EQ(shown.marks.size(), 1u);
    EXPECT_EQ(shown.marks[0].name, "first_non_finite");
  });
}

// A blob takes its time; what is wrong with the weights does not wait for it.
TEST(FirstNonFinite, DoesNotWaitForTheBlob) {
  const TempDir dir;
  in_child([&] {
    const RunningSession session(slow_flush(dir.path()));
    Capture bad = capture_with_nan("w");
    const auto on = std::make_shared<std::atomic<bool>>(false);
    bad.blob = std::make_unique<Switch>(on);
    engine().add_capture(std::move(bad));
    engine().flush();
    const auto spool = read_spool(dir.path());
    EXPECT_EQ(spool.marks.size(), 1u);
    EXPECT_EQ(snapshots_in(spool).size(), 0u);
    on->store(true);
    engine().flush();
    EXPECT_EQ(count_in(dir.path()), 3u);
  });
}

}  // namespace
}  // namespace sonde::session
