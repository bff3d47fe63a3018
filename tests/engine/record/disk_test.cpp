// A disk that is slow, interrupted by signals or without fallocate. This binary brings its own
// fallocate and pwrite.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "engine/record/journal.h"
#include "engine/record/lane.h"
#include "tests/engine/support/dead_journal.h"
#include "tests/engine/support/refuse.h"

namespace {
// What happens instead of the call: its result, and where that is -1 the error. Set in a child.
std::function<int()> g_fallocate;
std::function<ssize_t()> g_pwrite;  // a positive result: the call is made
}  // namespace

extern "C" int fallocate(int fd, int mode, off_t from, off_t bytes) {
  if (g_fallocate) {
    if (const int result = g_fallocate(); result <= 0) return result;
  }
  return static_cast<int>(::syscall(SYS_fallocate, fd, mode, from, bytes));
}

extern "C" ssize_t pwrite(int fd, const void* data, size_t bytes, off_t at) {
  if (g_pwrite) {
    if (const ssize_t result = g_pwrite(); result <= 0) return result;
  }
  return ::syscall(SYS_pwrite64, fd, data, bytes, at);
}

namespace sonde::record {
namespace {

using testing::in_child;
using testing::TempDir;

int fail(int error) {
  errno = error;
  return -1;
}

base::Status attach(const std::string& path) {
  close_gate();
  Journal::instance().begin_session({});
  base::Status status = Journal::instance().attach_file(path);
  open_gate();
  return status;
}

TEST(Disk, ASignalWhileItAllocatesChangesNothing) {
  const TempDir dir;
  in_child([&] {
    int calls = 0;
    g_fallocate = [&] { return ++calls == 1 ? fail(EINTR) : 1; };
    EXPECT_TRUE(attach(dir / "a.journal").ok());
    EXPECT_EQ(calls, 2);
  });
}

TEST(Disk, ASignalWhileZerosAreWrittenChangesNothing) {
  const TempDir dir;
  in_child([&] {
    int calls = 0;
    g_fallocate = [] { return fail(EOPNOTSUPP); };
    g_pwrite = [&] { return ++calls % 2 == 1 ? fail(EINTR) : 1; };
    EXPECT_TRUE(attach(dir / "a.journal").ok());
    EXPECT_EQ(Journal::instance().file_bytes(), kBlocksOffset + kFirstBlocks * kBlockBytes);
    EXPECT_GT(calls, 2);
  });
}

TEST(Disk, OneThatTakesNothingIsSaidToBeFull) {
  const TempDir dir;
  in_child([&] {
    g_fallocate = [] { return fail(EOPNOTSUPP); };
    g_pwrite = [] { return 0; };
    EXPECT_EQ(attach(dir / "a.journal").error(), ENOSPC);
    EXPECT_TRUE(testing::files_in(dir.path()).empty());
  });
}

TEST(Disk, WithoutLocksTheJournalHasItsFileAllTheSame) {
  const TempDir dir;
  in_child([&] {
    if (!testing::refuse_locks(ENOSYS)) GTEST_SKIP() << "cannot filter calls here";
    EXPECT_TRUE(attach(dir / "a.journal").ok());
  });
}

// The file grows while other threads record: here, in the middle of the call that allocates.
TEST(Disk, OneThatTakesLongToEnlargeTheFileCostsNoRecords) {
  const TempDir dir;
  in_child([&] {
    const auto record = [](std::uint32_t blocks) {
      for (std::uint32_t i = 0; i < blocks * kSlotsPerBlock; ++i)
        testing::close(testing::open("x"));
    };
    testing::RingTap tap;
    ASSERT_TRUE(attach(dir / "a.journal").ok());
    record(kFirstBlocks - kLowBlocks);
    g_fallocate = [&] { return record(kFirstBlocks), 1; };
    EXPECT_TRUE(Journal::instance().grow().ok());
    EXPECT_EQ(Journal::instance().header().block_count.load(), kMaxBlocks);
    EXPECT_EQ(total_losses().spans, 0u);
    EXPECT_EQ(tap.take().spans.size(), (2 * kFirstBlocks - kLowBlocks) * kSlotsPerBlock);
  });
}

}  // namespace
}  // namespace sonde::record
