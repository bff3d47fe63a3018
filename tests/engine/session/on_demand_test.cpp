// Sessions of child processes: nothing is there before something is recorded.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/file.h"
#include "engine/spool/recovery.h"
#include "tests/engine/support/running_session.h"

namespace sonde::session {
namespace {

using testing::Child;
using testing::engine;
using testing::files_in;
using testing::find_span;
using testing::in_child;
using testing::names_of;
using testing::read_spool;
using testing::spool_to;
using testing::stop;
using testing::TempDir;
using Names = std::vector<std::string>;

Options on_demand(const std::string& output_dir) {
  Options options = spool_to(output_dir);
  options.on_demand = true;
  options.attrs = R"("pid":1)";  // as every session has
  options.handle_signals = true;
  return options;
}

bool exists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

std::size_t threads() {
  std::vector<std::string> found;
  EXPECT_TRUE(base::list_directory("/proc/self/task", "", found).ok());
  return found.size();
}

bool sigterm_is_default() {
  struct sigaction current;
  return ::sigaction(SIGTERM, nullptr, &current) == 0 && current.sa_handler == SIG_DFL;
}

TEST(OnDemand, NothingIsThereBeforeTheFirstRecord) {
  const TempDir dir;
  in_child([&] {
    const std::string out = dir / "out";
    const std::size_t before = threads();  // a sanitizer may have one
    engine().start(on_demand(out));
    EXPECT_TRUE(engine().active());
    EXPECT_FALSE(exists(out));
    EXPECT_TRUE(sigterm_is_default());
    EXPECT_EQ(threads(), before);
    EXPECT_EQ(names_of(testing::trace().spans), (Names{"sonde.session"}));
    EXPECT_FALSE(exists(out)) << "reading records nothing";
    stop();
    EXPECT_FALSE(exists(out));
    EXPECT_EQ(engine().counters().flushed_batches, 0u);
    EXPECT_TRUE(testing::trace().spans.empty());
  });
}

TEST(OnDemand, TheFirstScopeFindsTheJournal) {
  const TempDir dir;
  in_child([&] {
    const std::string out = dir / "out";
    engine().start(on_demand(out));
    const std::int64_t began = base::wall_clock_ns();
    const record::ScopeHandle scope = testing::open("work");
    EXPECT_EQ(files_in(out + "/live", ".journal").size(), 1u);
    EXPECT_FALSE(sigterm_is_default());
    testing::close(scope);
    stop();
    EXPECT_TRUE(files_in(out + "/live").empty());
    const testing::SpoolContents spool = read_spool(out);
    const model::Span* session = find_span(spool.spans, "sonde.session");
    ASSERT_NE(session, nullptr);
    EXPECT_LE(session->start_ns, began) << "it began with profile(), not with the first scope";
    ASSERT_NE(find_span(spool.spans, "work"), nullptr);
    EXPECT_EQ(find_span(spool.spans, "work")->parent_id, session->id);
  });
}

TEST(OnDemand, KilledRightAfterItsFirstScopeItHasIt) {
  const TempDir dir;
  Child child([&](const Child::Say& say) {
    engine().start(on_demand(dir.path()));
    testing::open("work");
    say();
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(child.heard());
  child.kill_and_wait();
  EXPECT_EQ(spool::recover_directory(dir.path()).open_scopes, 2u);
  EXPECT_NE(find_span(read_spool(dir.path()).spans, "work"), nullptr);
}

TEST(OnDemand, WokenByAThreadThatRecordedNothingItLeavesNothing) {
  const TempDir dir;
  in_child([&] {
    engine().start(on_demand(dir.path()));
    EXPECT_NE(record::this_thread(), nullptr);
    EXPECT_EQ(files_in(dir / "live", ".journal").size(), 1u);
    engine().flush();
    stop();
    EXPECT_TRUE(files_in(dir / "spool").empty());
    EXPECT_TRUE(files_in(dir / "live").empty());
  });
}

TEST(OnDemand, WhatWasRecordedBeforeOpensItAtOnce) {
  const TempDir dir;
  in_child([&] {
    engine();
    testing::close(testing::open("before"));
    engine().start(on_demand(dir.path()));
    EXPECT_EQ(files_in(dir / "live", ".journal").size(), 1u);
    stop();
    EXPECT_EQ(names_of(read_spool(dir.path()).spans), (Names{"before", "sonde.session"}));
  });
}

TEST(OnDemand, ThreadsThatAllComeFirst) {
  constexpr int kThreads = 8, kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    const TempDir dir;
    in_child([&] {
      engine().start(on_demand(dir.path()));
      std::atomic<int> ready{0};
      std::vector<std::thread> crowd;
      for (int i = 0; i < kThreads; ++i) {
        crowd.emplace_back([&] {
          ready.fetch_add(1);
          while (ready.load() != kThreads) {
          }
          testing::close(testing::open("work"));
        });
      }
      for (std::thread& thread : crowd) thread.join();
      EXPECT_EQ(files_in(dir / "live", ".journal").size(), 1u);
      stop();
      EXPECT_EQ(read_spool(dir.path()).spans.size(), kThreads + 1u);
    });
  }
}

TEST(OnDemand, AForkedChildIsToldThatItsParentsSlept) {
  const TempDir dir;
  in_child([&] {
    engine().start(on_demand(dir.path()));
    EXPECT_FALSE(engine().slept_at_fork());
    in_child([&] {
      EXPECT_TRUE(engine().slept_at_fork());
      EXPECT_FALSE(engine().active());
      testing::close(testing::open("nobody's"));
      EXPECT_FALSE(exists(dir / "live"));
    });
    testing::close(testing::open("work"));
    in_child([&] { EXPECT_FALSE(engine().slept_at_fork()); });
    stop();
    EXPECT_EQ(names_of(read_spool(dir.path()).spans), (Names{"work", "sonde.session"}));
  });
}

TEST(OnDemand, ADirectoryThatCannotBeMadeIsSaidWhenItIsWanted) {
  const TempDir dir;
  in_child([&] {
    const testing::LogLines log;
    base::Fd(::open((dir / "file").c_str(), O_CREAT | O_WRONLY, 0666));
    engine().start(on_demand(dir / "file"));
    EXPECT_FALSE(testing::LogLines::has("recording goes on in memory"));
    testing::close(testing::open("work"));
    EXPECT_TRUE(testing::LogLines::has("recording goes on in memory")) << testing::LogLines::all();
    stop();
  });
}

}  // namespace
}  // namespace sonde::session
