// The lock that says whether the owner of a journal lives, as docs/formats/journal.md has it: on
// byte 0, of the open file description. Owners on other machines keep to it.
#include "engine/journal/file.h"

#include <fcntl.h>
#include <sys/types.h>

#include <string>

#include <gtest/gtest.h>

#include "engine/base/file.h"
#include "tests/engine/support/dead_journal.h"
#include "tests/engine/support/journal_image.h"

namespace sonde::journal {
namespace {

using testing::Child;
using testing::TempDir;

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
