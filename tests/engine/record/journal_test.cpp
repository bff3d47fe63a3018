// The memory under the lanes: from anonymous to file and back, growing, running out of disk.
#include "engine/record/journal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/journal/file.h"
#include "engine/model/process.h"
#include "engine/record/bus_guard.h"
#include "engine/spool/recovery.h"
#include "tests/engine/support/child.h"
#include "tests/engine/support/ring_tap.h"
#include "tests/engine/support/temp_dir.h"

namespace sonde::record {
namespace {

using testing::Child;
using testing::in_child;
using testing::names_of;
using testing::RingTap;
using testing::TempDir;
using Names = std::vector<std::string>;

// The life of a session as far as the journal sees it. In a child: the journal is the process's
// own.
base::Status attach(const std::string& path) {
  close_gate();
  Journal& journal = Journal::instance();
  journal.begin_session({.rank = 3, .local_rank = 1, .world_size = 8});
  const base::Status status = journal.attach_file(path);
  open_gate();
  return status;
}

void detach(bool remove) {
  close_gate();
  Journal::instance().detach_file(remove);
  open_gate();
}

model::Process inspect(const std::string& path) {
  model::Process report;
  const base::Status status = spool::inspect_journal(path, report);
  EXPECT_TRUE(status.ok()) << status.text();
  return report;
}

Names open_names(const model::Process& report) {
  Names names;
  for (const model::OpenScope& open : report.state.open) names.emplace_back(open.span.name);
  return names;
}

TEST(Journal, FileHoldsWhatWasRecordedBeforeAndAfter) {
  const TempDir dir;
  const std::string path = dir / "a.journal";
  in_child([&] {
    open_gate();
    testing::close(testing::open("before"));
    const ScopeHandle open = testing::open("open before");
    ASSERT_TRUE(attach(path).ok());
    EXPECT_TRUE(Journal::instance().on_file());
    EXPECT_EQ(Journal::instance().path(), path);
    EXPECT_TRUE(is_open(open)) << "addresses stay, so do handles";
    testing::mark("loss", 0.5);
    testing::close(testing::open("after"));

    const model::Process report = inspect(path);
    EXPECT_EQ(names_of(report.records.spans), (Names{"before", "after"}));
    EXPECT_EQ(report.records.marks.size(), 1u);
    EXPECT_EQ(open_names(report), (Names{"open before"}));
    EXPECT_EQ(report.state.pid, getpid());
    EXPECT_EQ(report.state.rank, 3);
    journal::File file;
    ASSERT_TRUE(file.open(path, false).ok());
    EXPECT_EQ(file.header().local_rank, 1);
    EXPECT_EQ(file.header().version, kJournalVersion);
    EXPECT_EQ(report.state.world_size, 8);
    EXPECT_EQ(report.state.fate, model::Fate::kRunning);
    EXPECT_EQ(file.header().clean, 0);
  });
}

TEST(Journal, DetachTakesEverythingBackToMemory) {
  const TempDir dir;
  in_child([&] {
    open_gate();
    RingTap tap;
    ASSERT_TRUE(attach(dir / "a.journal").ok());
    testing::close(testing::open("on file"));
    const ScopeHandle open = testing::open("open");
    detach(true);
    EXPECT_FALSE(Journal::instance().on_file());
    EXPECT_TRUE(testing::files_in(dir.path()).empty());
    EXPECT_TRUE(testing::close(open));
    EXPECT_EQ(names_of(tap.take().spans), (Names{"on file", "open"}));
    EXPECT_EQ(tap.damaged(), 0u);
  });
}

TEST(Journal, DetachWithoutRemovingLeavesTheFileUnlocked) {
  const TempDir dir;
  in_child([&] {
    open_gate();
    ASSERT_TRUE(attach(dir / "a.journal").ok());
    testing::close(testing::open("kept"));
    detach(false);
    testing::close(testing::open("later"));
    const model::Process report = inspect(dir / "a.journal");
    EXPECT_NE(report.state.fate, model::Fate::kRunning);
    EXPECT_EQ(names_of(report.records.spans), (Names{"kept"}));
  });
}

TEST(Journal, RefusedFileLeavesTheMemoryAsItWas) {
  const TempDir dir;
  in_child([&] {
    open_gate();
    RingTap tap;
    testing::close(testing::open("before"));
    const base::Status status = attach(dir / "not/there/a.journal");
    EXPECT_EQ(status.error(), ENOENT);
    EXPECT_FALSE(Journal::instance().on_file());
    testing::close(testing::open("after"));
    EXPECT_EQ(names_of(tap.take().spans), (Names{"before", "after"}));
  });
}

TEST(Journal, FullDiskRefusesTheFileAndLeavesNothing) {
  TempDir dir;
  if (!dir.mount_small(1 << 20)) GTEST_SKIP() << "cannot mount a small file system here";
  in_child([&] {
    open_gate();
    EXPECT_EQ(attach(dir / "a.journal").error(), ENOSPC);
    EXPECT_TRUE(testing::files_in(dir.path()).empty());
    testing::close(testing::open("goes on"));
  });
}

TEST(Journal, GrowsWhileLittleIsLeft) {
  const TempDir dir;
  in_child([&] {
    open_gate();
    RingTap tap;
    ASSERT_TRUE(attach(dir / "a.journal").ok());
    const std::size_t before = Journal::instance().file_bytes();
    const std::uint64_t spans = 4 * std::uint64_t{kFirstBlocks} * kSlotsPerBlock;
    for (std::uint64_t i = 0; i < spans; ++i) {
      testing::close(testing::open("many"));
      if (i % 1000 == 0) {
        ASSERT_TRUE(Journal::instance().grow().ok());
      }
    }
    EXPECT_GT(Journal::instance().file_bytes(), 3 * before);
    EXPECT_EQ(total_losses().spans, 0u);
    EXPECT_EQ(inspect(dir / "a.journal").records.spans.size(), spans)
        << "all of them survive the process";
    EXPECT_EQ(tap.take().spans.size(), spans);
  });
}

// Takes that many blocks at once, and says whether the file grows when the drain thread looks.
bool grows_after(std::uint32_t blocks, useconds_t wait_us) {
  Journal& journal = Journal::instance();
  const std::size_t before = journal.file_bytes();
  for (std::uint32_t i = 0; i < blocks; ++i) journal.take_block();
  ::usleep(wait_us);
  EXPECT_TRUE(journal.grow().ok());
  return journal.file_bytes() > before;
}

TEST(Journal, GrowsEarlyWhereTheEndWouldComeBeforeTheNextLook) {
  const TempDir dir;
  in_child([&] {
    ASSERT_TRUE(attach(dir / "a.journal").ok());
    EXPECT_TRUE(grows_after(kFirstBlocks - kLowBlocks - 30, 0));
  });
  in_child([&] {
    ASSERT_TRUE(attach(dir / "b.journal").ok());
    EXPECT_FALSE(grows_after(kFirstBlocks - kLowBlocks - 30, 200'000)) << "there is time";
  });
  in_child([&] {
    ASSERT_TRUE(attach(dir / "c.journal").ok());
    for (std::uint32_t i = 0; i < kFirstBlocks / 4; ++i) {
      ASSERT_NE(Journal::instance().take_lane(LaneState::kThread, 0), nullptr);
    }
    EXPECT_FALSE(grows_after(kFirstBlocks / 4, 0)) << "threads begin, and little is recorded";
  });
}

TEST(Journal, BehindTheEndOfTheFileIsMemoryUntilItGrows) {
  const TempDir dir;
  in_child([&] {
    open_gate();
    RingTap tap;
    ASSERT_TRUE(attach(dir / "a.journal").ok());
    const std::uint64_t spans = 4 * std::uint64_t{kFirstBlocks} * kSlotsPerBlock;
    for (std::uint64_t i = 0; i < spans; ++i) testing::close(testing::open("many"));
    EXPECT_EQ(total_losses().spans, 0u) << "no thread had to wait for the file";
    EXPECT_EQ(tap.take().spans.size(), spans);
    const std::size_t on_file = inspect(dir / "a.journal").records.spans.size();
    EXPECT_GT(on_file, spans / 5);
    EXPECT_LT(on_file, spans) << "what a kill would lose";
  });
}

TEST(Journal, CapDropsAndCounts) {
  const TempDir dir;
  in_child([&] {
    open_gate();
    RingTap tap;
    ASSERT_TRUE(attach(dir / "a.journal").ok());
    const std::uint64_t spans = (kMaxBlocks + 100) * std::uint64_t{kSlotsPerBlock};
    for (std::uint64_t i = 0; i < spans; ++i) testing::close(testing::open("many"));
    EXPECT_GT(total_losses().spans, 0u);
    EXPECT_EQ(tap.take().spans.size() + total_losses().spans, spans);
  });
}

TEST(Journal, DiskThatFillsUpMeansMemoryFromThere) {
  TempDir dir;
  if (!dir.mount_small(16 << 20)) GTEST_SKIP() << "cannot mount a small file system here";
  in_child([&] {
    open_gate();
    RingTap tap;
    ASSERT_TRUE(attach(dir / "a.journal").ok());
    const std::size_t bytes = Journal::instance().file_bytes();
    testing::fill_up(dir.path());
    const std::uint64_t spans = 4 * std::uint64_t{kFirstBlocks} * kSlotsPerBlock;
    int errors = 0;
    for (std::uint64_t i = 0; i < spans; ++i) {
      testing::close(testing::open("many"));
      if (i % 1000 == 0 && !Journal::instance().grow().ok()) ++errors;
    }
    EXPECT_EQ(errors, 1) << "said once";
    EXPECT_EQ(total_losses().spans, 0u) << "memory takes over";
    EXPECT_EQ(tap.take().spans.size(), spans);
    EXPECT_EQ(Journal::instance().file_bytes(), bytes);
    EXPECT_EQ(Journal::bus_errors(), 0u) << "every page of the file was there before it was used";
    const model::Process report = inspect(dir / "a.journal");
    EXPECT_GT(report.records.spans.size(), 0u) << "what lies in the file can be read";
    EXPECT_LT(report.records.spans.size(), spans);
    detach(true);
    testing::close(testing::open("after"));
    EXPECT_EQ(names_of(tap.take().spans), (Names{"after"}));
  });
}

TEST(Journal, TruncatedUnderUsCostsRecordsNotTheProcess) {
  const TempDir dir;
  in_child([&] {
    open_gate();
    ASSERT_TRUE(attach(dir / "a.journal").ok());
    testing::close(testing::open("before"));
    ASSERT_EQ(::truncate((dir / "a.journal").c_str(), 0), 0);
    for (int i = 0; i < 10'000; ++i) {
      const ScopeHandle handle = testing::open("after");
      testing::mark("m", i);
      testing::close(handle);
    }
    std::thread([] { testing::close(testing::open("another thread")); }).join();
    EXPECT_GT(Journal::bus_errors(), 0u);
    Journal::instance().grow().ok();
    detach(true);
    testing::close(testing::open("in memory"));
  });
}

TEST(Journal, BusErrorElsewhereStaysFatal) {
  const TempDir dir;
  Child child([&](const Child::Say&) {
    open_gate();
    EXPECT_TRUE(attach(dir / "a.journal").ok());
    const int fd = ::open((dir / "other").c_str(), O_RDWR | O_CREAT, 0600);
    auto* memory = static_cast<volatile char*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    ::signal(SIGABRT, SIG_DFL);
    *memory = 1;  // behind the end of an empty file
  });
  const int status = child.wait();
  // A sanitizer installs a handler of its own, which reports and exits: fatal as well.
  EXPECT_TRUE((WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) ||
              (WIFEXITED(status) && WEXITSTATUS(status) != 0))
      << status;
}

std::atomic<int> g_host_handler_calls{0};

TEST(Journal, BusErrorElsewhereReachesTheHostsHandler) {
  const TempDir dir;
  in_child([&] {
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t* info, void*) {
      g_host_handler_calls.fetch_add(1);
      void* page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(info->si_addr) &
                                           ~std::uintptr_t{4095});
      ::mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    };
    ::sigaction(SIGBUS, &action, nullptr);
    open_gate();
    ASSERT_TRUE(attach(dir / "a.journal").ok());
    const int fd = ::open((dir / "other").c_str(), O_RDWR | O_CREAT, 0600);
    auto* memory = static_cast<volatile char*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    *memory = 1;
    EXPECT_EQ(g_host_handler_calls.load(), 1);
    EXPECT_EQ(Journal::bus_errors(), 0u);
    detach(true);
    struct sigaction now;
    ::sigaction(SIGBUS, nullptr, &now);
    EXPECT_EQ(now.sa_sigaction, action.sa_sigaction) << "given back";
  });
}

TEST(Journal, RemovedFileIsNoticed) {
  const TempDir dir;
  in_child([&] {
    open_gate();
    ASSERT_TRUE(attach(dir / "a.journal").ok());
    EXPECT_FALSE(Journal::instance().file_is_gone());
    std::filesystem::remove_all(dir / "a.journal");
    EXPECT_TRUE(Journal::instance().file_is_gone());
    testing::close(testing::open("goes on"));
  });
}

TEST(Journal, SessionAfterSessionIdsDiffer) {
  const TempDir dir;
  in_child([&] {
    open_gate();
    RingTap tap;
    std::vector<base::Id> keys;
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(attach(dir / ("journal" + std::to_string(i))).ok());
      keys.push_back(Journal::instance().header().key);
      testing::close(testing::open("work"));
      detach(true);
      Journal::instance().end_session();
    }
    EXPECT_EQ(tap.take().spans.size(), 5u);
    for (std::size_t i = 1; i < keys.size(); ++i) EXPECT_NE(keys[i], keys[i - 1]);
  });
}

// Exchanging the backing while threads come, record and go. As in the host, one lock is held by
// the thread that records or attaches; a thread ends without it.
TEST(Journal, AttachAndDetachUnderLoad) {
  const TempDir dir;
  in_child([&] {
    open_gate();
    RingTap tap;
    std::atomic<bool> stop{false};
    std::mutex host;
    std::uint64_t opened = 0;
    std::thread worker([&] {
      while (!stop.load()) {
        std::thread([&] {
          for (int i = 0; i < 20; ++i) {
            const std::lock_guard lock(host);
            testing::close(testing::open("work"));
            ++opened;
          }
          const std::lock_guard lock(host);
          testing::open("left to the end of the thread");
          ++opened;
        }).join();
      }
    });
    for (int i = 0; i < 60; ++i) {
      {
        const std::lock_guard lock(host);
        ASSERT_TRUE(attach(dir / ("journal" + std::to_string(i))).ok());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard lock(host);
      detach(true);
      Journal::instance().end_session();
    }
    stop.store(true);
    worker.join();
    const model::Batch batch = tap.take();
    EXPECT_EQ(tap.damaged(), 0u);
    EXPECT_EQ(batch.spans.size() + total_losses().spans, opened);
  });
}

}  // namespace
}  // namespace sonde::record
