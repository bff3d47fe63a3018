// The contract of sinks: the spool and the journal come first, a batch is encoded at most once, and
// a sink that fails, blocks or is slow hurts nothing but itself.
#include "engine/session/sinks.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

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

TEST(Sinks, SpoolAndJournalAreDoneBeforeOthersSeeTheBatch) {
  const TempDir dir;
  in_child([&] {
    const auto sink = std::make_shared<TestSink>();
    std::atomic<std::size_t> in_spool{0};
    std::atomic<std::uint64_t> done{0};
    sink->on_accept = [&](const OutgoingBatch&) {
      in_spool.store(read_spool(dir.path()).spans.size());
      done.store(committed());
    };
    const RunningSession session(with_sink(spool_to(dir.path()), sink));
    record_many(10);
    engine().flush();
    EXPECT_EQ(in_spool.load(), 10u);
    EXPECT_GE(done.load(), 10u);
    EXPECT_EQ(done.load(), committed());
  });
}

TEST(Sinks, WithoutADurableOneTheRingsAreCommittedFirst) {
  in_child([] {
    const auto sink = std::make_shared<TestSink>();
    std::atomic<std::uint64_t> done{0};
    sink->on_accept = [&](const OutgoingBatch&) {
      done.store(committed());
      throw std::runtime_error("no");
    };
    Options options;
    options.handle_signals = false;
    const RunningSession session(with_sink(options, sink));
    record_many(10);
    engine().flush();
    EXPECT_GE(done.load(), 10u);
    EXPECT_EQ(testing::trace().spans.size(), 11u);
  });
}

// A sink that never returns: what it was given is safe, and recording goes on.
TEST(Sinks, OneThatBlocksHoldsUpNeitherItsBatchNorRecording) {
  const TempDir dir;
  in_child([&] {
    const auto sink = std::make_shared<TestSink>();
    std::atomic<bool> blocked{false}, free{false};
    sink->on_accept = [&](const OutgoingBatch&) {
      blocked.store(true);
      while (!free.load()) ::usleep(1000);
    };
    engine().start(with_sink(spool_to(dir.path()), sink));
    record_many(10);
    std::thread flusher([] { engine().flush(); });
    while (!blocked.load()) ::usleep(1000);
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 10u);
    EXPECT_GE(committed(), 10u);
    EXPECT_EQ(engine().counters().waiting_batches, 0u);
    model::Batch trace;
    engine().read_trace(trace);
    EXPECT_EQ(trace.spans.size(), 11u) << "trace() has them too";
    record_many(1000);
    EXPECT_EQ(engine().counters().dropped_spans, 0u);
    free.store(true);
    flusher.join();
    stop();
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 1011u);
  });
}

TEST(Sinks, OneThatThrowsIsSaidOnceAndCountedAndTheNextHasItsTurn) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    const auto bad = std::make_shared<TestSink>(), good = std::make_shared<TestSink>();
    bad->on_accept = [](const OutgoingBatch&) { throw std::runtime_error("out of order"); };
    std::atomic<int> accepted{0};
    good->on_accept = [&](const OutgoingBatch&) { accepted.fetch_add(1); };
    engine().start(with_sink(with_sink(spool_to(dir.path()), bad), good));
    for (int i = 0; i < 3; ++i) {
      record_many(1);
      engine().flush();
    }
    EXPECT_EQ(accepted.load(), 3);
    EXPECT_EQ(LogLines::count("the test sink failed (out of order)"), 1u) << LogLines::all();
    EXPECT_EQ(engine().counters().swallowed.count, 3u);
    EXPECT_EQ(engine().counters().swallowed.by_place.at("test sink"), 3u);
    stop();
    EXPECT_EQ(engine().counters().swallowed.count, 4u) << "of the session that ended";
    EXPECT_TRUE(testing::files_in(dir / "live").empty()) << "nothing is left in the journal";
    engine().start(spool_to(dir.path()));
    EXPECT_EQ(engine().counters().swallowed.count, 0u);
    stop();
  });
}

TEST(Sinks, FlushHasADeadlineWhereAThreadWaitsAndAtTheEnd) {
  const TempDir dir;
  in_child([&] {
    const auto sink = std::make_shared<TestSink>();
    std::atomic<std::uint64_t> longest{0};
    std::atomic<int> last_ones{0};
    sink->on_flush = [&](std::uint64_t deadline, bool last) {
      const std::uint64_t now = base::monotonic_ns();
      if (deadline > now) longest.store(std::max(longest.load(), deadline - now));
      last_ones.fetch_add(last ? 1 : 0);
      return false;  // a network that does not answer
    };
    engine().start(with_sink(spool_to(dir.path()), sink));
    record_many(1);
    engine().flush();
    EXPECT_GT(longest.load(), 0u);
    EXPECT_LE(longest.load(), 2'000'000'000u);
    EXPECT_EQ(last_ones.load(), 0);
    longest.store(0);
    stop();
    EXPECT_EQ(last_ones.load(), 1);
    EXPECT_GT(longest.load(), 0u);
    EXPECT_TRUE(testing::files_in(dir / "live").empty()) << "it does not keep the journal";
  });
}

TEST(Sinks, ABatchIsEncodedOnceForAll) {
  const TempDir dir;
  in_child([&] {
    const auto first = std::make_shared<TestSink>(), second = std::make_shared<TestSink>();
    // Each sink has a thread of its own.
    std::atomic<const char*> of_first{nullptr}, of_second{nullptr};
    std::atomic<bool> whole{false};
    first->on_accept = [&](const OutgoingBatch& batch) { of_first.store(batch.json().data()); };
    second->on_accept = [&](const OutgoingBatch& batch) {
      whole.store(batch.json().find("\"x\"") != std::string_view::npos);
      of_second.store(batch.json().data());
    };
    const RunningSession session(with_sink(with_sink(spool_to(dir.path()), first), second));
    record_many(1);
    engine().flush();
    EXPECT_NE(of_first.load(), nullptr);
    EXPECT_EQ(of_first.load(), of_second.load());
    EXPECT_TRUE(whole.load());
  });
}

// A network that does not answer, say: the sink tries again later, without a copy.
TEST(Sinks, OneMayKeepABatch) {
  in_child([] {
    const auto sink = std::make_shared<TestSink>();
    Options options;
    options.handle_signals = false;
    const RunningSession session(with_sink(options, sink));
    testing::close(testing::open("kept"));
    engine().flush();
    const std::shared_ptr<const OutgoingBatch> kept = sink->last_batch;
    for (int i = 0; i < 3; ++i) {
      record_many(100);
      engine().flush();
    }
    EXPECT_NE(sink->last_batch, kept);
    EXPECT_EQ(testing::names_of(kept->records.spans), (std::vector<std::string>{"kept"}));
    EXPECT_NE(kept->json().find("\"kept\""), std::string_view::npos);
  });
}

TEST(Sinks, WhatOneCountsIsAmongTheCounters) {
  const TempDir dir;
  in_child([&] {
    const auto sink = std::make_shared<TestSink>();
    sink->on_count = [](Counters& all) { all.write_failures += 7; };
    const RunningSession session(with_sink(spool_to(dir.path()), sink));
    EXPECT_EQ(engine().counters().write_failures, 7u);
  });
}

TEST(Sinks, ContextIsThereForThoseThatNeedIt) {
  in_child([] {
    const auto sink = std::make_shared<TestSink>();
    sink->wanted.context = true;
    std::atomic<std::size_t> marks{0}, open{0};
    sink->on_accept = [&](const OutgoingBatch& batch) {
      marks.store(batch.earlier_marks.marks.size());
      open.store(batch.open_scopes.spans.size());
    };
    Options options;
    options.handle_signals = false;
    const RunningSession session(with_sink(options, sink));
    const record::ScopeHandle scope = testing::open("long");
    testing::mark("loss", 1);
    engine().flush();
    EXPECT_EQ(open.load(), 2u) << "the session and the scope";
    testing::close(scope);
    engine().flush();
    EXPECT_EQ(marks.load(), 1u) << "it came with an earlier batch";
    EXPECT_EQ(open.load(), 1u);
  });
}

}  // namespace
}  // namespace sonde::session
