// Sinks that are not durable are served on threads of their own: whatever they do, the spool, the
// journal and the other sinks go on, and the session ends in time.
#include "engine/session/delivery.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/clock.h"
#include "engine/base/deadline.h"
#include "engine/base/swallowed.h"
#include "tests/engine/support/refuse.h"
#include "tests/engine/support/running_session.h"
#include "tests/engine/support/test_sink.h"

namespace sonde::session {
namespace {

using testing::committed;
using testing::engine;
using testing::in_child;
using testing::LogLines;
using testing::read_spool;
using testing::record_many;
using testing::RunningSession;
using testing::spool_to;
using testing::stop;
using testing::TempDir;
using testing::TestSink;
using testing::with_sink;

void accept(Delivery& delivery,
            std::unique_ptr<OutgoingBatch> batch = std::make_unique<OutgoingBatch>()) {
  const std::size_t bytes = batch->bytes();
  delivery.accept(std::shared_ptr<const OutgoingBatch>(std::move(batch)), bytes);
}

// Threads of this process.
std::size_t threads() { return testing::files_in("/proc/self/task").size(); }

TEST(Delivery, OneThatNeverReturnsHoldsUpNeitherLaterBatchesNorTheEnd) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    const auto sink = std::make_shared<TestSink>();
    sink->on_accept = [](const OutgoingBatch&) { testing::sleep_for_ever(); };
    Options options = with_sink(spool_to(dir.path()), sink);
    options.flush_interval_ns = 10'000'000;
    engine().start(options);
    for (std::size_t batch = 1; batch <= 10; ++batch) {
      record_many(100);
      while (read_spool(dir.path()).spans.size() < batch * 100) ::usleep(1000);
    }
    engine().flush();
    EXPECT_GE(committed(), 1000u);
    EXPECT_EQ(engine().counters().waiting_batches, 0u);
    const std::uint64_t start = base::monotonic_ns();
    stop();
    EXPECT_LT(base::monotonic_ns() - start, 4'000'000'000u);
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 1001u);
    EXPECT_TRUE(testing::files_in(dir / "live").empty()) << "all of it is in the spool";
    EXPECT_EQ(LogLines::count("was stuck when the session ended"), 1u) << LogLines::all();
    EXPECT_GE(engine().counters().swallowed.by_place.at("delivery to test"), 9u);
    engine().start(spool_to(dir.path()));
    record_many(1);
    stop();
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 1003u) << "the next session is not held up";
  });
}

TEST(Delivery, OneThatReturnsAfterTheEndFindsWhatItUses) {
  in_child([] {
    std::thread([] {}).join();  // a sanitizer starts its own thread with the first one
    const std::size_t before = threads();
    std::atomic<bool> free{false}, returned{false};
    {
      auto sink = std::make_shared<TestSink>();
      sink->on_accept = [&](const OutgoingBatch& batch) {
        while (!free.load()) ::usleep(1000);
        returned.store(batch.json().find("\"x\"") != std::string_view::npos);
      };
      Options options;
      options.handle_signals = false;
      engine().start(with_sink(options, sink));
    }
    record_many(1);
    engine().flush();
    record_many(1);
    stop();
    free.store(true);
    while (!returned.load()) ::usleep(1000);
    while (threads() > before) ::usleep(1000);
  });
}

TEST(Delivery, BatchesComeInOrderAndAreThereWhenFlushReturns) {
  in_child([] {
    const auto sink = std::make_shared<TestSink>();
    std::vector<std::int64_t> created;  // of the delivery thread, which rests after a flush()
    std::size_t spans = 0;
    sink->on_accept = [&](const OutgoingBatch& batch) {
      ::usleep(500);
      created.push_back(batch.records.created_ns);
      spans += batch.records.spans.size();
    };
    Options options;
    options.handle_signals = false;
    const RunningSession session(with_sink(options, sink));
    record_many(40'000);  // three batches
    engine().flush();
    EXPECT_EQ(spans, 40'000u);
    for (std::size_t i = 1; i <= 20; ++i) {
      record_many(1);
      engine().flush();
      EXPECT_EQ(spans, 40'000 + i);
    }
    EXPECT_GE(created.size(), 22u);
    EXPECT_TRUE(std::ranges::is_sorted(created));
  });
}

TEST(Delivery, TheirThreadComesWithTheFirstBatch) {
  const TempDir dir;
  in_child([&] {
    std::thread([] {}).join();  // a sanitizer starts its own thread with the first one
    const std::size_t before = threads();
    const auto sink = std::make_shared<TestSink>();
    engine().start(spool_to(dir.path()));
    record_many(1);
    engine().flush();
    EXPECT_EQ(threads(), before + 1) << "the drain thread alone";
    stop();
    while (threads() > before) ::usleep(1000);
    engine().start(with_sink(spool_to(dir.path()), sink));
    engine().flush();
    EXPECT_EQ(threads(), before + 1);
    record_many(1);
    engine().flush();
    EXPECT_EQ(threads(), before + 2);
    stop();
    while (threads() > before) ::usleep(1000);
  });
}

TEST(Delivery, WithoutThreadsTheyAreServedByTheThreadThatFlushesOrEnds) {
  in_child([] {
    if (!testing::refuse_threads()) GTEST_SKIP() << "cannot filter calls here";
    LogLines log;
    const auto sink = std::make_shared<TestSink>();
    std::size_t spans = 0;
    int flushes = 0, last_ones = 0;
    sink->on_accept = [&](const OutgoingBatch& batch) {
      spans += batch.records.spans.size();
      engine().flush();  // returns at once
    };
    sink->on_flush = [&](std::uint64_t, bool last) { return ++flushes, last_ones += last, true; };
    Options options;
    options.handle_signals = false;
    engine().start(with_sink(options, sink));
    record_many(10);
    engine().flush();
    EXPECT_EQ(spans, 10u);
    EXPECT_GT(flushes, 0);
    stop();
    EXPECT_EQ(spans, 11u);
    EXPECT_EQ(last_ones, 1);
  });
}

// The draining thread hands over and goes on, also where no thread can be started: a thread that
// waits for the sink calls it.
TEST(Delivery, WithoutAThreadASinkIsCalledByTheThreadThatWaits) {
  in_child([] {
    if (!testing::refuse_threads()) GTEST_SKIP() << "cannot filter calls here";
    const auto sink = std::make_shared<TestSink>();
    std::vector<int> called;
    sink->on_accept = [&](const OutgoingBatch&) { called.push_back(1); };
    sink->on_flush = [&](std::uint64_t, bool) { return called.push_back(2), true; };
    Delivery delivery(sink);
    accept(delivery);
    accept(delivery);
    delivery.flush(1'000'000, false);
    EXPECT_TRUE(called.empty());
    delivery.await(base::deadline_after(20'000'000'000));
    EXPECT_EQ(called, (std::vector{1, 1, 2}));
  });
}

TEST(Delivery, AThreadThatCouldNotBeStartedIsTriedAgainWithTheNextBatch) {
  in_child([] {
    const auto sink = std::make_shared<TestSink>();
    std::atomic<int> accepted{0};
    sink->on_accept = [&](const OutgoingBatch&) { ++accepted; };
    Delivery delivery(sink);
    bool refused = false;
    std::thread([&] {  // the filter holds for this thread only
      refused = testing::refuse_threads();
      accept(delivery);
    })
        .join();
    if (!refused) GTEST_SKIP() << "cannot filter calls here";
    EXPECT_EQ(accepted.load(), 0);
    accept(delivery);
    for (int i = 0; i < 20'000 && accepted.load() < 2; ++i) ::usleep(1000);
    EXPECT_EQ(accepted.load(), 2);
  });
}

TEST(Delivery, TheTimeToFlushCountsFromWhenTheSinksHaveEverything) {
  in_child([] {
    const auto sink = std::make_shared<TestSink>();
    std::atomic<bool> late{false};
    sink->on_accept = [](const OutgoingBatch&) { ::usleep(50'000); };
    sink->on_flush = [&](std::uint64_t deadline_ns, bool) {
      late.store(deadline_ns <= base::monotonic_ns());
      return true;
    };
    Delivery delivery(sink);
    accept(delivery);
    delivery.flush(20'000'000, false);
    delivery.await(base::monotonic_ns() + 20'000'000'000);
    EXPECT_FALSE(late.load());
  });
}

TEST(Delivery, ASinkThatGotNoBatchIsToldOfTheEnd) {
  in_child([] {
    const auto sink = std::make_shared<TestSink>();
    std::atomic<int> flushes{0}, last_ones{0};
    sink->on_flush = [&](std::uint64_t, bool last) {
      ++flushes;
      last_ones += last;
      return true;
    };
    Delivery delivery(sink);
    delivery.flush(1'000'000, false);
    delivery.flush(1'000'000, true);
    delivery.await(base::monotonic_ns() + 20'000'000'000);
    EXPECT_EQ(flushes.load(), 1);
    EXPECT_EQ(last_ones.load(), 1);
  });
}

TEST(Delivery, OneThatNeverReturnsHoldsUpNoOther) {
  in_child([] {
    LogLines log;
    const auto stuck = std::make_shared<TestSink>(), good = std::make_shared<TestSink>();
    stuck->on_accept = [](const OutgoingBatch&) { testing::sleep_for_ever(); };
    std::atomic<std::size_t> spans{0};
    good->on_accept = [&](const OutgoingBatch& batch) {
      EXPECT_NE(batch.json().find("\"x\""), std::string_view::npos);
      spans.fetch_add(batch.records.spans.size());
    };
    Options options;
    options.handle_signals = false;
    options.flush_interval_ns = 1'000'000;
    engine().start(with_sink(with_sink(options, stuck), good));
    for (std::size_t i = 1; i <= Delivery::kMaxBatches + 10; ++i) {
      record_many(1);
      while (spans.load() < i) ::usleep(200);
    }
    EXPECT_EQ(LogLines::count("the output (test) does not keep up"), 1u) << LogLines::all();
  });
}

TEST(Delivery, ASinkThatIsStuckIsWaitedForOnce) {
  const TempDir dir;
  in_child([&] {
    const auto sink = std::make_shared<TestSink>();
    sink->on_accept = [](const OutgoingBatch&) { testing::sleep_for_ever(); };
    engine().start(with_sink(spool_to(dir.path()), sink));
    const std::uint64_t start = base::monotonic_ns();
    for (int i = 0; i < 10; ++i) {
      record_many(1);
      engine().flush();
    }
    EXPECT_LT(base::monotonic_ns() - start, 4'000'000'000u);
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 10u);
  });
}

// A sink may do what it likes when the session lets go of it.
struct ReadsAtItsEnd : TestSink {
  explicit ReadsAtItsEnd(std::atomic<std::size_t>& found) : spans(found) {}
  ~ReadsAtItsEnd() override {
    model::Batch trace;
    engine().read_trace(trace);
    spans.store(trace.spans.size());
  }
  std::atomic<std::size_t>& spans;
};

TEST(Delivery, ASinkThatReadsTheTraceWhenItIsDestroyedFindsIt) {
  in_child([] {
    std::atomic<std::size_t> spans{0};
    {
      Options options;
      options.handle_signals = false;
      options.more_sinks.push_back(std::make_shared<ReadsAtItsEnd>(spans));
      engine().start(std::move(options));
    }
    record_many(10);
    stop();
    // The delivery thread may be the last to let go of it.
    for (int i = 0; i < 10'000 && spans.load() == 0; ++i) ::usleep(1000);
    EXPECT_EQ(spans.load(), 11u);
  });
}

// Accepts nothing until it is let go.
struct Gate {
  std::atomic<bool> open{false}, entered{false};
  std::atomic<int> accepted{0};
  std::shared_ptr<TestSink> sink = std::make_shared<TestSink>();

  Gate() {
    sink->on_accept = [this](const OutgoingBatch&) {
      entered.store(true);
      while (!open.load()) ::usleep(1000);
      accepted.fetch_add(1);
    };
  }
};

TEST(Delivery, BeyondItsBoundTheNewestBatchIsLostAndCounted) {
  in_child([] {
    LogLines log;
    Gate gate;
    Delivery delivery(gate.sink);
    const int more = 100, all = static_cast<int>(Delivery::kMaxBatches) + more;
    for (int i = 0; i < all; ++i) accept(delivery);
    const std::uint64_t lost = base::swallowed_errors().by_place.at("delivery to test");
    EXPECT_GE(lost, more - 1u) << "the sink has one of them already";
    EXPECT_LE(lost, more + 0u);
    EXPECT_EQ(LogLines::count("does not keep up"), 1u) << LogLines::all();
    gate.open.store(true);
    delivery.await(base::monotonic_ns() + 20'000'000'000);
    EXPECT_EQ(gate.accepted.load() + static_cast<int>(lost), all);
  });
}

// Lines, for example, are held back until the place of their spans is known.
TEST(Delivery, WhatASinkHoldsBackIsMissedIfItIsNotToldOfTheEnd) {
  in_child([] {
    LogLines log;
    Gate gate;
    Delivery delivery(gate.sink);
    accept(delivery);
    while (!gate.entered.load()) ::usleep(100);
    delivery.flush(1'000'000, true);
    delivery.close();
    EXPECT_EQ(base::swallowed_errors().by_place.at("delivery to test"), 1u);
    EXPECT_TRUE(
        LogLines::has("the output (test) was stuck when the session ended, and what it "
                      "still held back was not shown there"))
        << LogLines::all();
    gate.open.store(true);
    while (gate.accepted.load() == 0) ::usleep(100);
  });
}

TEST(Delivery, ASinkThatHoldsNothingBackMissesNothing) {
  in_child([] {
    if (!testing::refuse_threads()) GTEST_SKIP() << "cannot filter calls here";
    LogLines log;
    Delivery delivery(std::make_shared<TestSink>());
    delivery.flush(1'000'000, true);
    delivery.close();
    EXPECT_EQ(base::swallowed_errors().count, 0u);
    EXPECT_EQ(LogLines::count("was stuck"), 0u) << LogLines::all();
  });
}

TEST(Delivery, WithoutAThreadItsBoundSaysWhy) {
  in_child([] {
    if (!testing::refuse_threads()) GTEST_SKIP() << "cannot filter calls here";
    LogLines log;
    Delivery delivery(std::make_shared<TestSink>());
    for (std::size_t i = 0; i <= Delivery::kMaxBatches; ++i) accept(delivery);
    EXPECT_EQ(base::swallowed_errors().by_place.at("delivery to test"), 1u);
    EXPECT_EQ(LogLines::count("no thread can be started for the output (test)"), 1u)
        << LogLines::all();
  });
}

TEST(Delivery, LargeBatchesAreBoundedByTheirBytes) {
  in_child([] {
    LogLines log;
    Gate gate;
    Delivery delivery(gate.sink);
    for (int i = 0; i < 10; ++i) {
      auto batch = std::make_unique<OutgoingBatch>();
      batch->records.arena.allocate(Delivery::kMaxBytes / 4);
      accept(delivery, std::move(batch));
    }
    const std::uint64_t lost = base::swallowed_errors().by_place.at("delivery to test");
    EXPECT_GE(lost, 5u);
    EXPECT_LE(lost, 7u);
    gate.open.store(true);
    delivery.await(base::monotonic_ns() + 20'000'000'000);
    EXPECT_EQ(gate.accepted.load(), 10 - static_cast<int>(lost));
  });
}

}  // namespace
}  // namespace sonde::session
