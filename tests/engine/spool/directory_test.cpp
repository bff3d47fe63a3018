#include "engine/spool/directory.h"

#include <sys/stat.h>
#include <utime.h>

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "engine/base/clock.h"
#include "tests/engine/support/temp_dir.h"

namespace sonde::spool {
namespace {

using testing::file_text;
using testing::files_in;
using testing::TempDir;

constexpr std::uint64_t kNoCap = ~std::uint64_t{0};

void put(const std::string& path, std::size_t bytes) {
  std::ofstream(path) << std::string(bytes, 'x');
}

void scan_all(Directory& directory) {
  while (!directory.scan_some()) {
  }
}

TEST(Directory, NamesSortByTime) {
  EXPECT_EQ(batch_file_name(42, {1, 2}),
            "00000000000000000042-00000000000000010000000000000002.json");
  EXPECT_EQ(created_ns_of("a/1-2/" + batch_file_name(42, {1, 2})), 42);
  for (const char* name : {"", "42-x.json", "a/0000000000000000004x-1.json",
                           "00000000000000000042/1.json", "99999999999999999999-1.json"})
    EXPECT_FALSE(created_ns_of(name)) << name;
  EXPECT_LT(batch_file_name(999, {9, 9}), batch_file_name(1000, {0, 0}));
}

TEST(Directory, WritesAWholeFileAndMakesItsFolder) {
  const TempDir dir;
  Directory directory(dir / "deep/down", kNoCap);
  ASSERT_TRUE(directory.write(1, {0, 1}, "{}").ok());
  const auto files = files_in(dir / "deep/down/spool");
  ASSERT_EQ(files.size(), 1u) << "and no temporary one";
  EXPECT_EQ(file_text(files[0]), "{}");
  EXPECT_TRUE(directory.contains(1, {0, 1}));
  EXPECT_FALSE(directory.contains(2, {0, 1}));
  EXPECT_EQ(directory.bytes(), 2u);
}

TEST(Directory, FolderThatVanishesIsMadeAgain) {
  const TempDir dir;
  Directory directory(dir.path(), kNoCap);
  ASSERT_TRUE(directory.write(1, {0, 1}, "{}").ok());
  std::filesystem::remove_all(dir.path());
  ASSERT_TRUE(directory.write(2, {0, 2}, "{}").ok());
  EXPECT_EQ(files_in(dir / "spool").size(), 1u);
}

TEST(Directory, OldestGoBeyondTheCapAndTheNewestNever) {
  const TempDir dir;
  Directory directory(dir.path(), 250);
  for (std::int64_t i = 1; i <= 10; ++i)
    ASSERT_TRUE(directory.write(i, {0, static_cast<std::uint64_t>(i)}, std::string(100, 'x')).ok());
  EXPECT_EQ(directory.evicted(), 8u);
  EXPECT_EQ(directory.bytes(), 200u);
  EXPECT_TRUE(directory.contains(9, {0, 9}));
  EXPECT_TRUE(directory.contains(10, {0, 10}));
  ASSERT_TRUE(directory.write(11, {0, 11}, std::string(1000, 'x')).ok());
  EXPECT_TRUE(directory.contains(11, {0, 11})) << "larger than the cap, and still written";
  EXPECT_EQ(files_in(dir / "spool").size(), 1u);
}

TEST(Directory, WhatLaysThereAlreadyCountsOnceItIsKnown) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "spool");
  for (std::int64_t i = 1; i <= 1000; ++i) put(dir / ("spool/" + batch_file_name(i, {0, 0})), 10);
  put(dir / "spool/notes.txt", 10'000);
  Directory directory(dir.path(), 5000);
  EXPECT_FALSE(directory.scan_some()) << "a few hundred per call";
  scan_all(directory);
  EXPECT_EQ(directory.bytes(), 5000u);
  EXPECT_EQ(directory.evicted(), 500u);
  EXPECT_FALSE(directory.contains(500, {0, 0}));
  EXPECT_TRUE(directory.contains(501, {0, 0}));
  ASSERT_TRUE(directory.write(2000, {0, 1}, std::string(10, 'x')).ok());
  EXPECT_FALSE(directory.contains(501, {0, 0}));
}

TEST(Directory, WrittenDuringTheScanIsNotForgotten) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "spool");
  for (std::int64_t i = 1; i <= 1000; ++i) put(dir / ("spool/" + batch_file_name(i, {0, 0})), 10);
  Directory directory(dir.path(), kNoCap);
  directory.scan_some();
  ASSERT_TRUE(directory.write(5000, {0, 1}, std::string(10, 'x')).ok());
  scan_all(directory);
  EXPECT_EQ(directory.bytes(), 10'010u);
}

TEST(Directory, FilesTakenAwayByOthersAreNoLossOfOurs) {
  const TempDir dir;
  Directory directory(dir.path(), 250);
  ASSERT_TRUE(directory.write(1, {0, 1}, std::string(100, 'x')).ok());
  ASSERT_TRUE(directory.write(2, {0, 2}, std::string(100, 'x')).ok());
  std::filesystem::remove_all(dir / "spool");
  ASSERT_TRUE(directory.write(3, {0, 3}, std::string(100, 'x')).ok());
  EXPECT_EQ(directory.evicted(), 0u);
  EXPECT_TRUE(directory.contains(3, {0, 3}));
}

TEST(Directory, TemporaryFilesOfDeadWritersAreCleanedAway) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "spool");
  const std::string old = dir / "spool/00000000000000000001-0.json.tmp",
                    fresh = dir / "spool/00000000000000000002-0.json.tmp";
  put(old, 10);
  put(fresh, 10);
  const utimbuf long_ago{1'000'000'000, 1'000'000'000};
  ASSERT_EQ(::utime(old.c_str(), &long_ago), 0);
  Directory directory(dir.path(), kNoCap);
  scan_all(directory);
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(fresh));
  EXPECT_EQ(directory.bytes(), 0u) << "only finished files count";
}

TEST(Directory, FullDiskIsAnErrorAndLeavesNoHalfFile) {
  TempDir dir;
  if (!dir.mount_small(1 << 20)) GTEST_SKIP() << "cannot mount a small file system here";
  Directory directory(dir.path(), kNoCap);
  ASSERT_TRUE(directory.write(1, {0, 1}, "{}").ok());
  const std::string ballast = testing::fill_up(dir.path());
  const base::Status status = directory.write(2, {0, 2}, std::string(100'000, 'x'));
  EXPECT_EQ(status.error(), ENOSPC);
  EXPECT_EQ(files_in(dir / "spool").size(), 1u);
  std::filesystem::remove(ballast);
  EXPECT_TRUE(directory.write(2, {0, 2}, std::string(100'000, 'x')).ok());
}

TEST(Directory, ReadOnlyFileSystemIsAnError) {
  TempDir dir;
  if (!dir.mount_small(1 << 20)) GTEST_SKIP() << "cannot mount a small file system here";
  Directory directory(dir.path(), kNoCap);
  ASSERT_TRUE(directory.write(1, {0, 1}, "{}").ok());
  ASSERT_TRUE(dir.remount_read_only());
  EXPECT_EQ(directory.write(2, {0, 2}, "{}").error(), EROFS);
}

TEST(Directory, FileInThePlaceOfTheFolderIsAnError) {
  const TempDir dir;
  put(dir / "spool", 1);
  Directory directory(dir.path(), kNoCap);
  EXPECT_EQ(directory.write(1, {0, 1}, "{}").error(), ENOTDIR);
}

// The budget: one write within 5 ms of one into an empty folder, however many files there are.
TEST(Directory, WriteLooksAtNoOtherFile) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "spool");
  for (std::int64_t i = 1; i <= 20'000; ++i) put(dir / ("spool/" + batch_file_name(i, {0, 0})), 1);
  Directory directory(dir.path(), kNoCap);
  std::uint64_t best = ~std::uint64_t{0};
  for (std::int64_t i = 0; i < 5; ++i) {
    const std::uint64_t start = base::monotonic_ns();
    ASSERT_TRUE(directory.write(30'000 + i, {0, 1}, "{}").ok());
    best = std::min(best, base::monotonic_ns() - start);
  }
  EXPECT_LT(best, 5'000'000u);
}

}  // namespace
}  // namespace sonde::spool
