// A disk that is full for a while and very slow afterwards. This binary brings its own rename, with
// which every file of the spool gets its name.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "engine/journal/file.h"
#include "tests/engine/support/running_session.h"

namespace {
enum class Disk { kSound, kFull, kSlow };
std::atomic<Disk> g_disk{Disk::kSound};
}  // namespace

extern "C" int rename(const char* from, const char* to) noexcept {
  if (std::string_view(to).ends_with(".json")) {
    if (g_disk.load() == Disk::kFull) return errno = ENOSPC, -1;
    if (g_disk.load() == Disk::kSlow) ::usleep(100'000);
  }
  return static_cast<int>(::syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
}

namespace sonde::session {
namespace {

using testing::Child;
using testing::engine;
using testing::files_in;
using testing::TempDir;

// Ends a run whose spool has 60 batches waiting. `while_slow` runs when the disk takes them again,
// slowly: all of them would take six seconds. After five, the signal would kill.
void terminate(const std::string& output_dir, const std::function<void()>& while_slow) {
  Child child([&](const Child::Say& say) {
    const testing::LogLines log;
    Options options = testing::spool_to(output_dir);
    options.handle_signals = true;
    options.flush_interval_ns = 3'600'000'000'000;
    engine().start(options);
    g_disk.store(Disk::kFull);
    for (int i = 0; i < 60; ++i) {
      testing::close(testing::open("work"));
      engine().flush();
    }
    EXPECT_EQ(engine().counters().waiting_batches, 60u);
    g_disk.store(Disk::kSlow);
    say();
    while_slow();
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(child.heard());
  ::usleep(300'000);
  const int status = child.kill_and_wait(SIGTERM);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
}

void expect_a_proper_end(const std::string& output_dir) {
  EXPECT_GE(files_in(output_dir + "/spool", ".json").size(), 10u) << "it used the time there is";
  const auto left = files_in(output_dir + "/live", ".journal");
  ASSERT_EQ(left.size(), 1u) << "with what could not be written";
  journal::File file;
  ASSERT_TRUE(file.open(left[0], false).ok());
  EXPECT_EQ(file.header().ended, 1u) << "it was not killed in the middle";
}

TEST(SlowDisk, ATerminatedRunStopsWritingInTimeToEndProperly) {
  const TempDir dir;
  terminate(dir.path(), [] {});
  expect_a_proper_end(dir.path());
}

TEST(SlowDisk, ARunThatIsTerminatedWhileItWritesWhatWaitedDoesSoToo) {
  const TempDir dir;
  terminate(dir.path(), [] { engine().flush(); });
  expect_a_proper_end(dir.path());
}

}  // namespace
}  // namespace sonde::session
