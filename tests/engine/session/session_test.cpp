// A session from start to stop, each test in a child process.
#include "engine/session/engine.h"

#include <atomic>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/support/running_session.h"

namespace sonde::session {
namespace {

using testing::engine;
using testing::files_in;
using testing::find_span;
using testing::in_child;
using testing::LogLines;
using testing::names_of;
using testing::read_spool;
using testing::RunningSession;
using testing::spool_to;
using testing::SpoolContents;
using testing::stop;
using testing::TempDir;
using Names = std::vector<std::string>;

std::size_t distinct(const std::vector<model::Span>& spans) {
  std::unordered_set<base::Id, base::IdHash> ids;
  for (const model::Span& span : spans) ids.insert(span.id);
  return ids.size();
}

TEST(Session, SpansReachTheSpoolUnderTheSession) {
  const TempDir dir;
  in_child([&] {
    Options options = spool_to(dir.path());
    options.rank = 5;
    options.attrs = R"("pid":1,"device":"cpu")";
    engine().start(options);
    EXPECT_TRUE(engine().active());
    EXPECT_EQ(files_in(dir / "live", ".journal").size(), 1u);
    const record::ScopeHandle step = testing::open("step");
    testing::mark("loss", 0.5);
    testing::close(step);
    testing::mark("free", 1);
    std::thread([] { testing::close(testing::open("on a thread")); }).join();
    stop();
    EXPECT_FALSE(engine().active());
    EXPECT_TRUE(files_in(dir / "live").empty()) << "a clean end leaves no journal";

    const SpoolContents spool = read_spool(dir.path());
    const model::Span* session = find_span(spool.spans, "sonde.session");
    ASSERT_NE(session, nullptr);
    EXPECT_EQ(session->attrs, R"("pid":1,"device":"cpu")");
    EXPECT_FALSE(session->parent_id);
    EXPECT_EQ(session->rank, 5);
    EXPECT_EQ(session->mark_id_count, 0u) << "marks that fell to the session are not in its list";
    for (const char* name : {"step", "on a thread"}) {
      ASSERT_NE(find_span(spool.spans, name), nullptr) << name;
      EXPECT_EQ(find_span(spool.spans, name)->parent_id, session->id);
      EXPECT_EQ(find_span(spool.spans, name)->rank, 5);
    }
    EXPECT_EQ(find_span(spool.spans, "step")->mark_id_count, 1u);
    ASSERT_EQ(spool.marks.size(), 2u);
    EXPECT_EQ(spool.marks[1].span_id, session->id);
    EXPECT_GE(session->end_ns, find_span(spool.spans, "on a thread")->end_ns);
  });
}

TEST(Session, RecordedBeforeIsInTheFirstFlush) {
  const TempDir dir;
  in_child([&] {
    engine();
    testing::close(testing::open("before"));
    const record::ScopeHandle open = testing::open("open before");
    const RunningSession session(spool_to(dir.path()));
    testing::close(open);
    engine().flush();
    EXPECT_EQ(names_of(read_spool(dir.path()).spans), (Names{"before", "open before"}));
  });
}

TEST(Session, FlushReturnsWhenItIsDone) {
  const TempDir dir;
  in_child([&] {
    Options options = spool_to(dir.path());
    options.flush_interval_ns = 3'600'000'000'000;
    const RunningSession session(options);
    engine().flush();
    EXPECT_TRUE(files_in(dir / "spool").empty()) << "nothing recorded, nothing written";
    for (std::size_t i = 1; i <= 50; ++i) {
      testing::close(testing::open("x"));
      engine().flush();
      ASSERT_EQ(read_spool(dir.path()).spans.size(), i);
    }
  });
}

TEST(Session, FlushFromManyThreads) {
  const TempDir dir;
  in_child([&] {
    const RunningSession session(spool_to(dir.path()));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&dir, t] {
        const std::string name = "thread " + std::to_string(t);
        for (int i = 1; i <= 25; ++i) {
          testing::close(testing::open(name));
          engine().flush();
          const Names names = names_of(read_spool(dir.path()).spans);
          ASSERT_EQ(std::count(names.begin(), names.end(), name), i)
              << "all that this thread recorded before";
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 100u);
  });
}

TEST(Session, FlushInsideASinkDoesNotWaitForItself) {
  const TempDir dir;
  in_child([&] {
    Options options = spool_to(dir.path());
    std::atomic<int> calls{0};
    options.on_batch = [&](std::string_view) {
      engine().flush();
      calls.fetch_add(1);
    };
    const RunningSession session(options);
    testing::close(testing::open("x"));
    const std::uint64_t start = base::monotonic_ns();
    engine().flush();
    EXPECT_LT(base::monotonic_ns() - start, 5'000'000'000u);
    EXPECT_EQ(calls.load(), 1);
  });
}

TEST(Session, SinksGetLinesAndBatches) {
  in_child([] {
    std::vector<std::string> lines, batches;
    Options options;
    options.handle_signals = false;
    options.lines.push_back({"log", {}, [&](const std::vector<std::string>& some) {
                               lines.insert(lines.end(), some.begin(), some.end());
                             }});
    options.on_batch = [&](std::string_view json) { batches.emplace_back(json); };
    engine().start(options);
    const record::ScopeHandle epoch =
        testing::open("epoch", {.index = 0, .flags = record::kHasIndex});
    testing::mark("epoch_loss", 0.5234);
    testing::close(epoch);
    stop();
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_TRUE(lines[0].starts_with("[sonde] epoch[0] - ")) << lines[0];
    EXPECT_TRUE(lines[0].ends_with(" {epoch_loss=0.5234}")) << lines[0];
    EXPECT_TRUE(lines[1].starts_with("[sonde] sonde.session - ")) << lines[1];
    ASSERT_FALSE(batches.empty());
    EXPECT_TRUE(batches[0].starts_with("{\"schema_version\":1,"));
  });
}

TEST(Session, LinesForOneTargetDoNotWaitForThoseOfAnother) {
  in_child([] {
    LogLines log;
    std::atomic<std::size_t> lines{0};
    Options options;
    options.handle_signals = false;
    options.lines.push_back({"stdout", {}, [](const auto&) { testing::sleep_for_ever(); }});
    options.lines.push_back({"log", {}, [&](const auto& some) { lines += some.size(); }});
    engine().start(options);
    for (int i = 0; i < 10; ++i) testing::close(testing::open("x"));
    engine().flush();
    EXPECT_EQ(lines.load(), 10u);
    stop();
    EXPECT_EQ(LogLines::count("the output (stdout) was stuck when the session ended"), 1u)
        << LogLines::all();
  });
}

TEST(Session, StopClosesWhatIsOpenOnEveryThread) {
  const TempDir dir;
  in_child([&] {
    engine().start(spool_to(dir.path()));
    const record::ScopeHandle mine = testing::open("mine", {.attrs = R"("k":1)"});
    testing::mark("loss", 1);
    record::ScopeHandle theirs;
    std::atomic<int> phase{0};
    std::uint64_t ident = 0;
    std::thread other([&] {
      ident = static_cast<std::uint64_t>(pthread_self());
      theirs = testing::open("theirs");
      testing::open("inner");
      phase.store(1);
      while (phase.load() != 2) std::this_thread::yield();
      EXPECT_FALSE(testing::close(theirs)) << "the stop has closed it";
      testing::RingTap tap;
      testing::close(testing::open("later"));
      EXPECT_FALSE(tap.take().spans.at(0).parent_id)
          << "nothing of the old session is a parent now";
    });
    while (phase.load() != 1) std::this_thread::yield();
    stop();
    phase.store(2);
    other.join();
    EXPECT_FALSE(testing::close(mine));

    const SpoolContents spool = read_spool(dir.path());
    EXPECT_EQ(spool.spans.size(), 4u);
    EXPECT_EQ(find_span(spool.spans, "mine")->attrs, R"("k":1,"sonde.closed_by":"shutdown")");
    EXPECT_EQ(find_span(spool.spans, "mine")->mark_id_count, 1u) << "its marks are listed";
    EXPECT_EQ(find_span(spool.spans, "inner")->attrs, R"("sonde.closed_by":"shutdown")");
    EXPECT_EQ(find_span(spool.spans, "inner")->parent_id, find_span(spool.spans, "theirs")->id);
    EXPECT_EQ(find_span(spool.spans, "inner")->thread_id, ident) << "the thread that opened it";
    EXPECT_EQ(find_span(spool.spans, "mine")->thread_id,
              static_cast<std::uint64_t>(pthread_self()));
    EXPECT_EQ(spool.spans.back().name, "sonde.session") << "the session ends last";
    EXPECT_EQ(spool.spans.back().attrs, "");
  });
}

TEST(Session, AfterTheStopRecordingGoesOnInMemory) {
  const TempDir dir;
  in_child([&] {
    engine().start(spool_to(dir.path()));
    testing::close(testing::open("in session"));
    stop();
    const std::size_t files = files_in(dir / "spool").size();
    EXPECT_EQ(testing::trace().spans.size(), 2u) << "what the session recorded can still be seen";
    testing::close(testing::open("later"));
    EXPECT_EQ(names_of(testing::trace().spans), (Names{"later"}))
        << "until something new is recorded";
    EXPECT_EQ(files_in(dir / "spool").size(), files) << "which goes nowhere near the disk";
  });
}

TEST(Session, CyclesWithScopesOpenOnOtherThreads) {
  const TempDir dir;
  in_child([&] {
    constexpr int kCycles = 15;
    testing::HostLock host;
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        while (!done.load()) {
          const record::ScopeHandle outer = host.held([] { return testing::open("outer"); });
          for (int i = 0; i < 5; ++i) {
            const record::ScopeHandle inner = host.held([] { return testing::open("inner"); });
            host.held([&] { testing::close(inner); });
          }
          ::usleep(1000);
          host.held([&] { testing::close(outer); });
        }
      });
    }
    for (int i = 0; i < kCycles; ++i) {
      host.start(spool_to(dir.path()));
      ::usleep(3000);
      host.stop();
      EXPECT_TRUE(files_in(dir / "live").empty());
    }
    done.store(true);
    for (std::thread& thread : threads) thread.join();
    const SpoolContents spool = read_spool(dir.path());
    EXPECT_EQ(distinct(spool.spans), spool.spans.size()) << "none twice";
    const Names names = names_of(spool.spans);
    EXPECT_EQ(std::count(names.begin(), names.end(), "sonde.session"), kCycles);
    EXPECT_EQ(engine().counters().damaged_records, 0u);
  });
}

TEST(Session, StartsCleanAfterAStop) {
  const TempDir dir;
  in_child([&] {
    engine().start(spool_to(dir / "one"));
    testing::close(testing::open("first"));
    stop();
    engine().start(spool_to(dir / "two"));
    testing::close(testing::open("second"));
    EXPECT_EQ(names_of(testing::trace().spans), (Names{"second", "sonde.session"}));
    stop();
    EXPECT_EQ(find_span(read_spool(dir / "two").spans, "first"), nullptr);
    EXPECT_EQ(find_span(read_spool(dir / "one").spans, "second"), nullptr);
    EXPECT_NE(find_span(read_spool(dir / "one").spans, "sonde.session")->id,
              find_span(read_spool(dir / "two").spans, "sonde.session")->id);
  });
}

TEST(Session, TraceShowsClosedAndOpenWithTheirMarks) {
  in_child([] {
    Options options;
    options.handle_signals = false;
    const RunningSession session(options);
    testing::close(testing::open("closed"));
    testing::open("outer", {.index = 1, .flags = record::kHasIndex});
    testing::mark("loss", 1);
    testing::open("inner", {.attrs = R"("k":1)"});
    testing::mark("loss", 2);
    const model::Batch batch = testing::trace();
    EXPECT_EQ(names_of(batch.spans), (Names{"closed", "sonde.session", "outer", "inner"}));
    const model::Span& outer = batch.spans[2];
    EXPECT_TRUE(outer.open());
    EXPECT_EQ(outer.index, 1);
    EXPECT_EQ(outer.parent_id, batch.spans[1].id);
    EXPECT_EQ(batch.spans[3].parent_id, outer.id);
    EXPECT_EQ(batch.spans[3].attrs, R"("k":1)");
    ASSERT_EQ(batch.marks.size(), 2u);
    EXPECT_EQ(batch.marks[0].span_id, outer.id);
    EXPECT_EQ(batch.marks[1].span_id, batch.spans[3].id);
  });
}

TEST(Session, WithoutOneTraceWorksFromMemory) {
  in_child([] {
    engine();
    testing::close(testing::open("a"));
    testing::open("b");
    const model::Batch batch = testing::trace();
    EXPECT_EQ(names_of(batch.spans), (Names{"a", "b"}));
    EXPECT_EQ(engine().counters().mode, Counters::Mode::kStopped);
  });
}

TEST(Session, TraceHoldsTheNewestSpans) {
  in_child([] {
    Options options;
    options.handle_signals = false;
    options.trace_max_spans = 100;
    const RunningSession session(options);
    for (int i = 0; i < 5000; ++i)
      testing::close(testing::open("x", {.index = i, .flags = record::kHasIndex}));
    const model::Batch batch = testing::trace();
    ASSERT_EQ(batch.spans.size(), 101u);
    EXPECT_EQ(batch.spans.front().index, 4900);
  });
}

TEST(Session, NoOutputDirectoryTouchesNoDisk) {
  const TempDir dir;
  in_child([&] {
    ASSERT_EQ(::chdir(dir.path().c_str()), 0);
    Options options;
    options.handle_signals = false;
    engine().start(options);
    testing::close(testing::open("x"));
    engine().flush();
    stop();
    EXPECT_TRUE(files_in(dir.path()).empty());
    EXPECT_EQ(testing::trace().spans.size(), 2u);
  });
}

TEST(Session, ThousandsOfThreadsBetweenTwoFlushes) {
  const TempDir dir;
  in_child([&] {
    constexpr int kThreads = 20'000;  // each leaves a thread record too: more than one batch counts
    Options options = spool_to(dir.path());
    options.flush_interval_ns = 3'600'000'000'000;
    engine().start(options);
    for (int i = 0; i < kThreads; ++i)
      std::thread([] { testing::close(testing::open("short")); }).join();
    engine().flush();
    EXPECT_EQ(read_spool(dir.path()).spans.size(), std::size_t{kThreads});
    stop();
  });
}

TEST(Session, ManyThreadsAtFullSpeedLoseNothingUncounted) {
  const TempDir dir;
  in_child([&] {
    constexpr int kThreads = 3, kSpans = 120'000;
    Options options = spool_to(dir.path());
    options.flush_interval_ns = 10'000'000;
    engine().start(options);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < kSpans; ++i) testing::close(testing::open("x"));
      });
    }
    for (std::thread& thread : threads) thread.join();
    stop();
    const SpoolContents spool = read_spool(dir.path());
    EXPECT_EQ(spool.spans.size() + engine().counters().dropped_spans,
              std::size_t{kThreads} * kSpans + 1);
    EXPECT_EQ(distinct(spool.spans), spool.spans.size());
    EXPECT_EQ(engine().counters().damaged_records, 0u);
  });
}

// Threads that never pause must not keep a flush or a stop from ending.
TEST(Session, FlushAndStopEndAgainstEndlessRecording) {
  const TempDir dir;
  in_child([&] {
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    engine().start(spool_to(dir.path()));
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&done] {
        while (!done.load(std::memory_order_relaxed)) testing::close(testing::open("endless"));
      });
    }
    ::usleep(20'000);
    const std::uint64_t start = base::monotonic_ns();
    engine().flush();
    stop();
    EXPECT_LT(base::monotonic_ns() - start, 25'000'000'000u);
    done.store(true);
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(Session, SpoolStaysUnderItsCap) {
  const TempDir dir;
  in_child([&] {
    Options options = spool_to(dir.path());
    options.spool_max_bytes = 20'000;
    const RunningSession session(options);
    for (int i = 0; i < 50; ++i) {
      for (int k = 0; k < 10; ++k) testing::close(testing::open("x"));
      engine().flush();
    }
    const Counters counters = engine().counters();
    EXPECT_GT(counters.evicted_files, 0u);
    EXPECT_LE(counters.spool_bytes, 20'000u);
    std::uintmax_t bytes = 0;
    for (const std::string& file : files_in(dir / "spool"))
      bytes += std::filesystem::file_size(file);
    EXPECT_EQ(bytes, counters.spool_bytes);
  });
}

TEST(Session, TwoProcessesShareADirectory) {
  const TempDir dir;
  const auto run = [&](const testing::Child::Say&) {
    engine().start(spool_to(dir.path()));
    for (int i = 0; i < 100; ++i) {
      testing::close(testing::open("x"));
      engine().flush();
    }
    stop();
  };
  testing::Child first(run), second(run);
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(second.wait(), 0);
  const SpoolContents spool = read_spool(dir.path());
  EXPECT_EQ(spool.spans.size(), 202u);
  EXPECT_EQ(distinct(spool.spans), 202u);
}

TEST(Session, StopAndStartWhileAnotherThreadFlushes) {
  const TempDir dir;
  in_child([&] {
    std::atomic<bool> done{false};
    testing::HostLock host;
    engine();
    std::thread flusher([&] {
      while (!done.load()) {
        host.held([] { testing::close(testing::open("x")); });
        engine().flush();
      }
    });
    for (int i = 0; i < 20; ++i) {
      host.start(spool_to(dir.path()));
      ::usleep(1000);
      host.stop();
    }
    done.store(true);
    flusher.join();
    EXPECT_EQ(distinct(read_spool(dir.path()).spans), read_spool(dir.path()).spans.size());
  });
}

}  // namespace
}  // namespace sonde::session
