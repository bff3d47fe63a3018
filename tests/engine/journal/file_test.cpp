// The lock that says whether the owner of a journal lives, as docs/formats/journal.md has it: on
// byte 0, of the open file description. Owners on other machines keep to it.
#include "engine/journal/file.h"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/file.h"
#include "tests/engine/support/dead_journal.h"
#include "tests/engine/support/journal_image.h"
#include "tests/engine/support/refuse.h"

namespace sonde::journal {
namespace {

using testing::Child;
using testing::TempDir;
using Paths = std::vector<std::string>;

// Locks bytes of the file as long as it lives.
base::Fd lock_bytes(const std::string& path, off_t first, off_t count) {
  base::Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = count;
  EXPECT_EQ(::fcntl(file.get(), F_OFD_SETLK, &lock), 0);
  return file;
}

TEST(FileLock, ByteZeroIsTheOwners) {
  const TempDir dir;
  testing::JournalImage().write(dir / "a.journal");
  File file;
  ASSERT_TRUE(file.open(dir / "a.journal", true).ok());
  {
    const base::Fd owner = lock_bytes(dir / "a.journal", 0, 1);
    EXPECT_TRUE(file.owner_alive());
    EXPECT_FALSE(file.try_lock());
  }
  EXPECT_FALSE(file.owner_alive());
  EXPECT_TRUE(file.try_lock());
}

TEST(FileLock, TheOtherBytesAreNot) {
  const TempDir dir;
  testing::JournalImage().write(dir / "a.journal");
  const base::Fd other = lock_bytes(dir / "a.journal", 1, 0);
  File file;
  ASSERT_TRUE(file.open(dir / "a.journal", true).ok());
  EXPECT_FALSE(file.owner_alive());
  EXPECT_TRUE(file.try_lock());
}

// Journals on a file system without locks, of a process of this host unless a test says otherwise.
class WithoutLocks {
 public:
  explicit WithoutLocks(pid_t owner) {
    image_.header().pid = static_cast<std::uint32_t>(owner);
    ::gethostname(image_.header().host, sizeof image_.header().host - 1);
    works_ = testing::refuse_locks(ENOSYS);
  }
  bool works() const { return works_; }
  record::Header& header() { return image_.header(); }
  // A file under that name, mapped.
  std::unique_ptr<File> open(const std::string& path) const {
    image_.write(path);
    auto file = std::make_unique<File>();
    EXPECT_TRUE(file->open(path, true).ok());
    return file;
  }

 private:
  testing::JournalImage image_;
  bool works_;
};

pid_t dead_process() {
  Child child([](const Child::Say&) {});
  const pid_t pid = child.pid();
  child.wait();
  return pid;
}

TEST(FileLock, WithoutLocksTheProcessTableSaysWhetherTheOwnerLives) {
  const TempDir dir;
  const pid_t dead = dead_process();
  testing::in_child([&] {
    WithoutLocks journals(::getppid());
    if (!journals.works()) GTEST_SKIP() << "cannot filter calls here";
    const auto living = journals.open(dir / "living.journal");
    EXPECT_TRUE(living->owner_alive());
    EXPECT_FALSE(living->try_lock());
    journals.header().ended = 1;
    EXPECT_FALSE(journals.open(dir / "ended.journal")->owner_alive()) << "another may follow";
    journals.header().ended = 0;
    journals.header().pid = static_cast<std::uint32_t>(dead);
    EXPECT_FALSE(journals.open(dir / "dead.journal")->owner_alive());
    journals.header().host[0] = '?';
    const auto elsewhere = journals.open(dir / "elsewhere.journal");
    EXPECT_TRUE(elsewhere->owner_alive()) << "nothing says that it is dead";
    EXPECT_FALSE(elsewhere->try_lock());
  });
}

TEST(FileLock, WithoutLocksOneOfSeveralClaimsADeadJournal) {
  const TempDir dir;
  const pid_t dead = dead_process();
  testing::in_child([&] {
    const WithoutLocks journals(dead);
    if (!journals.works()) GTEST_SKIP() << "cannot filter calls here";
    const auto first = journals.open(dir / "a.journal");
    File second;
    ASSERT_TRUE(second.open(dir / "a.journal", true).ok());
    EXPECT_TRUE(first->try_lock());
    EXPECT_FALSE(second.try_lock());
    const std::string claimed = dir / ("a.recovering-" + std::to_string(::getpid()) + ".journal");
    EXPECT_EQ(first->path(), claimed);
    File third;
    ASSERT_TRUE(third.open(claimed, true).ok());
    EXPECT_FALSE(third.owner_alive());
    EXPECT_FALSE(third.try_lock()) << "the process that recovers it lives";
    first->withdraw_claim();
    EXPECT_EQ(testing::files_in(dir.path(), ".journal"), Paths{dir / "a.journal"});
  });
}

TEST(FileLock, WithoutLocksAJournalWhoseRecoveryDiedIsClaimedAgain) {
  const TempDir dir;
  const pid_t dead = dead_process();
  testing::in_child([&] {
    const WithoutLocks journals(dead);
    if (!journals.works()) GTEST_SKIP() << "cannot filter calls here";
    const auto left = journals.open(dir / ("a.recovering-" + std::to_string(dead) + ".journal"));
    EXPECT_TRUE(left->try_lock());
    EXPECT_EQ(testing::files_in(dir.path(), ".journal"),
              Paths{dir / ("a.recovering-" + std::to_string(::getpid()) + ".journal")});
  });
}

// What engine/record locks is what engine/journal asks for.
TEST(FileLock, AnOwnerHoldsByteZeroAndNothingElse) {
  const TempDir dir;
  const std::string path = dir / "live/a.journal";
  Child owner([&](const Child::Say& say) {
    testing::attach_journal(path);
    say();
    testing::sleep_for_ever();
  });
  ASSERT_TRUE(owner.heard());
  File file;
  ASSERT_TRUE(file.open(path, true).ok());
  EXPECT_TRUE(file.owner_alive());
  const base::Fd other = lock_bytes(path, 1, 0);  // fails where the owner holds more
  owner.kill_and_wait();
  EXPECT_FALSE(file.owner_alive());
  EXPECT_TRUE(file.try_lock());
}

}  // namespace
}  // namespace sonde::journal
