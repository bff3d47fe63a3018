#include "engine/base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "tests/engine/support/temp_dir.h"

namespace sonde::base {
namespace {

using sonde::testing::file_text;
using sonde::testing::files_in;
using sonde::testing::TempDir;

Status write(const std::string& path, std::string_view text) {
  const std::string_view parts[] = {text};
  return write_atomically(path, parts);
}

TEST(File, MakesEveryLevel) {
  TempDir dir;
  EXPECT_TRUE(make_directories(dir / "a/b/c").ok());
  EXPECT_TRUE(make_directories(dir / "a/b/c/").ok()) << "again, and with a slash";
  EXPECT_TRUE(std::filesystem::is_directory(dir / "a/b/c"));
}

TEST(File, AFileInTheWayIsAnErrorWithItsName) {
  TempDir dir;
  ASSERT_TRUE(write(dir / "a", "x").ok());
  const Status below = make_directories(dir / "a/b");
  EXPECT_EQ(below.error(), ENOTDIR);
  EXPECT_NE(below.text().find(dir / "a"), std::string::npos);
  EXPECT_EQ(make_directories(dir / "a").error(), ENOTDIR);
}

TEST(File, WritesAllPartsAndLeavesNoTemporary) {
  TempDir dir;
  const std::string_view parts[] = {"one ", "", "two"};
  ASSERT_TRUE(write_atomically(dir / "f", parts).ok());
  EXPECT_EQ(file_text(dir / "f"), "one two");
  EXPECT_EQ(files_in(dir.path()).size(), 1u);
}

TEST(File, AFailedWriteLeavesNothing) {
  TempDir dir;
  EXPECT_EQ(write(dir / "gone/f", "x").error(), ENOENT);
  std::filesystem::create_directory(dir / "taken");  // rename cannot replace a directory
  EXPECT_FALSE(write(dir / "taken", "x").ok());
  EXPECT_EQ(files_in(dir.path()).size(), 1u);
}

TEST(File, AFullDiskLeavesNothing) {
  TempDir dir;
  if (!dir.mount_small(64 * 1024)) GTEST_SKIP() << "needs to mount a file system";
  EXPECT_EQ(write(dir / "f", std::string(1 << 20, 'x')).error(), ENOSPC);
  EXPECT_TRUE(files_in(dir.path()).empty());
}

TEST(File, ReadsWhatWasWritten) {
  TempDir dir;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{100'000}}) {
    ASSERT_TRUE(write(dir / "f", std::string(size, 'q')).ok());
    std::string text = "old";
    ASSERT_TRUE(read_file(dir / "f", text).ok());
    EXPECT_EQ(text, std::string(size, 'q'));
  }
}

TEST(File, ReadsFilesThatDoNotSayTheirSize) {
  std::string text;
  ASSERT_TRUE(read_file("/proc/self/status", text).ok());
  EXPECT_NE(text.find("Pid:"), std::string::npos);
}

TEST(File, AMissingFileSaysWhich) {
  std::string text;
  EXPECT_EQ(read_file("/nowhere/x", text).text(),
            "cannot open /nowhere/x: No such file or directory");
}

TEST(File, ListsBySuffixInOrder) {
  TempDir dir;
  for (const char* name : {"b.json", "a.json", "c.json.tmp", ".json"})
    ASSERT_TRUE(write(dir / name, "").ok());
  std::vector<std::string> names = {"old"};
  ASSERT_TRUE(list_directory(dir.path(), ".json", names).ok());
  EXPECT_EQ(names, (std::vector<std::string>{".json", "a.json", "b.json"}));
  ASSERT_TRUE(list_directory(dir / "missing", ".json", names).ok());
  EXPECT_TRUE(names.empty());
  EXPECT_EQ(list_directory(dir / "a.json", "", names).error(), ENOTDIR);
}

TEST(File, JoinsPaths) {
  EXPECT_EQ(join_path("/a", "b"), "/a/b");
  EXPECT_EQ(join_path("/a/", "b/"), "/a/b");
  EXPECT_EQ(join_path("/a", "./b"), "/a/b");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(absolute_path("/x"), "/x");
  EXPECT_EQ(absolute_path("x").front(), '/');
}

TEST(File, DescriptorsAreClosedOnce) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    Fd first(ends[0]);
    Fd second(std::move(first));
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is the point
    EXPECT_EQ(second.get(), ends[0]);
  }
  EXPECT_EQ(::close(ends[0]), -1);
  ::close(ends[1]);
}

}  // namespace
}  // namespace sonde::base
