// Killed at any instant, a run keeps every span that was closed and every scope that was open. The
// long version of this is the nightly test.
#include <sys/mman.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/journal/file.h"
#include "engine/spool/recovery.h"
#include "tests/engine/support/running_session.h"
#include "tests/engine/support/slots.h"

namespace sonde::session {
namespace {

using testing::Child;
using testing::engine;
using testing::files_in;
using testing::find_span;
using testing::read_spool;
using testing::spool_to;
using testing::TempDir;

// How far each thread of the child is, written after every close and readable after its death.
constexpr int kThreads = 2;
struct Progress {
  std::atomic<std::int64_t> closed[kThreads];
};

Progress* share_progress() {
  void* memory =
      ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (memory) Progress{};
}

void record_for_ever(int thread, Progress& progress) {
  const record::ScopeHandle outer =
      testing::open("outer", {.index = thread, .flags = record::kHasIndex});
  (void)outer;
  for (std::int64_t i = 0;; ++i) {
    const std::string attrs = R"("thread":)" + std::to_string(thread);
    record::ScopeStart start{.index = i, .flags = record::kHasIndex};
    if (i % 5 == 0) start.attrs = attrs;
    const record::ScopeHandle scope = testing::open("work " + std::to_string(thread), start);
    if (i % 3 == 0) testing::mark("m", static_cast<double>(i));
    testing::close(scope);
    progress.closed[thread].store(i + 1);
    if (i % 64 == 0) std::this_thread::yield();  // the drain thread needs its turn
  }
}

// Spans that found no room because the drain thread was too late are counted in the journal.
std::int64_t count_losses(const std::string& output_dir) {
  std::int64_t losses = 0;
  for (const std::string& path : files_in(output_dir + "/live", ".journal")) {
    journal::File file;
    EXPECT_TRUE(file.open(path, false).ok());
    for (const record::Lane* lane : file.view().lanes()) losses += testing::lost_spans(*lane);
  }
  return losses;
}

// How many of the spans 0, 1, 2... are missing, and how many of those are not the newest.
struct Missing {
  std::int64_t all = 0, before_others = 0;
};

Missing find_missing(const std::vector<int>& seen) {
  Missing missing;
  for (const int times : seen) {
    if (times == 0) {
      ++missing.all;
    } else {
      missing.before_others = missing.all;
    }
  }
  return missing;
}

// `damaged`: where recovery found rings that it could not read to their end. Their last blocks were
// memory only: on a busy machine the drain thread may come too late to enlarge the file.
void check(const std::string& output_dir, const Progress& progress, std::int64_t losses,
           std::uint64_t damaged) {
  const auto spool = read_spool(output_dir);
  int sessions = 0, outers = 0;
  Missing missing;
  std::vector<std::vector<int>> seen(kThreads);
  for (const model::Span& span : spool.spans) {
    if (span.name == "sonde.session") ++sessions;
    if (span.name == "outer") {
      ++outers;
      EXPECT_EQ(span.attrs, R"("sonde.closed_by":"death")");
    }
    for (int t = 0; t < kThreads; ++t) {
      if (span.name != "work " + std::to_string(t)) continue;
      auto& mine = seen[static_cast<std::size_t>(t)];
      mine.resize(std::max(mine.size(), static_cast<std::size_t>(span.index) + 1));
      ++mine[static_cast<std::size_t>(span.index)];
    }
  }
  EXPECT_EQ(sessions, 1);
  EXPECT_GE(outers, (progress.closed[0].load() > 0) + (progress.closed[1].load() > 0));
  for (int t = 0; t < kThreads; ++t) {
    auto& mine = seen[static_cast<std::size_t>(t)];
    const auto closed = static_cast<std::size_t>(progress.closed[t].load());
    EXPECT_LE(mine.size(), closed + 1) << "the one being closed when it died, at most";
    mine.resize(std::max(mine.size(), closed));
    for (std::size_t i = 0; i < mine.size(); ++i) {
      EXPECT_LE(mine[i], 1) << "span " << i << " of thread " << t;
    }
    const Missing of_thread = find_missing(mine);
    missing.all += of_thread.all;
    missing.before_others += of_thread.before_others;
  }
  if (damaged == 0) {
    EXPECT_EQ(missing.all, losses);
  } else {
    EXPECT_LE(missing.before_others, losses) << "only the newest of each thread may be missing";
  }
}

TEST(Kill, AtRandomMoments) {
  std::mt19937 random(7);
  for (int round = 0; round < 25; ++round) {
    const TempDir dir;
    Progress* progress = share_progress();
    Child child([&](const Child::Say& say) {
      Options options = spool_to(dir.path());
      options.flush_interval_ns = 3'000'000;  // many commits, so that the kill hits some of them
      engine().start(options);
      say();
      std::thread([&] { record_for_ever(1, *progress); }).detach();
      record_for_ever(0, *progress);
    });
    ASSERT_TRUE(child.heard());
    ::usleep(random() % 40'000);
    child.kill_and_wait();
    const std::int64_t losses = count_losses(dir.path());
    const model::Recovery recovery = spool::recover_directory(dir.path());
    check(dir.path(), *progress, losses, recovery.damaged);
    EXPECT_TRUE(files_in(dir / "live", ".journal").empty());
    ::munmap(progress, sizeof(Progress));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Kill, WhileItStops) {
  std::mt19937 random(11);
  for (int round = 0; round < 25; ++round) {
    const TempDir dir;
    Child child([&](const Child::Say& say) {
      engine().start(spool_to(dir.path()));
      for (int i = 0; i < 2000; ++i) testing::close(testing::open("work"));
      testing::open("outer");
      testing::open("inner");
      say();
      testing::stop();
      say();
      testing::sleep_for_ever();
    });
    ASSERT_TRUE(child.heard());
    ::usleep(random() % 12'000);
    child.kill_and_wait();
    spool::recover_directory(dir.path());
    const auto spool = read_spool(dir.path());
    EXPECT_EQ(spool.spans.size(), 2003u);
    ASSERT_NE(find_span(spool.spans, "inner"), nullptr);
    ASSERT_NE(find_span(spool.spans, "sonde.session"), nullptr);
    EXPECT_TRUE(files_in(dir / "live", ".journal").empty());
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Kill, NextRunInTheDirectoryRecovers) {
  const TempDir dir;
  Child child([&](const Child::Say& say) {
    Options options = spool_to(dir.path());
    options.flush_interval_ns = 3'600'000'000'000;
    engine().start(options);
    engine().flush();
    testing::close(testing::open("closed"));
    testing::open("open");
    say();
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(child.heard());
  child.kill_and_wait();
  testing::in_child([&] {
    engine().start(spool_to(dir.path()));
    engine().flush();
    EXPECT_EQ(engine().counters().recovered_journals, 1u);
    EXPECT_EQ(engine().counters().recovered_spans, 3u);
    testing::stop();
  });
  const auto spool = read_spool(dir.path());
  EXPECT_EQ(spool.spans.size(), 4u);
  EXPECT_EQ(find_span(spool.spans, "open")->attrs, R"("sonde.closed_by":"death")");
}

TEST(Kill, CrashesAndSilentExitsKeepTheirSpansToo) {
  for (const int way : {SIGSEGV, SIGABRT, 0}) {
    const TempDir dir;
    Child child([&](const Child::Say&) {
      Options options = spool_to(dir.path());
      options.flush_interval_ns = 3'600'000'000'000;
      engine().start(options);
      engine().flush();
      testing::close(testing::open("closed"));
      testing::open("open");
      if (way != 0) {
        ::signal(way, SIG_DFL);
        ::raise(way);
      }
      ::_exit(3);
    });
    child.wait();
    const model::Recovery recovery = spool::recover_directory(dir.path());
    EXPECT_EQ(recovery.spans, 1u) << way;
    EXPECT_EQ(recovery.open_scopes, 2u) << way;
  }
}

}  // namespace
}  // namespace sonde::session
