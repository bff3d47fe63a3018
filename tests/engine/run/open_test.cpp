#include "engine/run/open.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>

#include <gtest/gtest.h>

#include "tests/engine/support/dead_journal.h"
#include "tests/engine/support/ring_tap.h"
#include "tests/engine/support/temp_dir.h"

namespace sonde::run {
namespace {

using testing::TempDir;

class Open : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::leave_journal(dir_.path(), [] { testing::open("epoch"); });
    std::filesystem::create_directories(dir_ / "spool");
    std::ofstream(dir_ / "spool/1.json") << "{}";
  }
  TempDir dir_;
  base::Status status_;
};

TEST_F(Open, ADirectory) {
  const std::unique_ptr<Source> source = open_source(dir_ / "spool", status_);
  ASSERT_TRUE(source) << status_.text();
  EXPECT_EQ(source->name(), dir_.path());
  EXPECT_EQ(source->called(), dir_ / "spool");
  EXPECT_TRUE(source->is_whole_run());
  EXPECT_FALSE(source->empty());
  EXPECT_EQ(source->processes().size(), 1u);
  EXPECT_EQ(source->recover().journals, 1u);
}

// Without an output directory, recovery would take the working directory for one.
TEST_F(Open, OneFileHasNothingToRecover) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir_.path());
  const std::unique_ptr<Source> source = open_source("spool/1.json", status_);
  ASSERT_TRUE(source) << status_.text();
  EXPECT_FALSE(source->is_whole_run());
  EXPECT_EQ(source->name(), "spool/1.json");
  EXPECT_EQ(source->batches().size(), 1u);
  EXPECT_EQ(source->recover().journals, 0u);
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "live/dead.journal"));
}

TEST_F(Open, NothingThere) {
  EXPECT_EQ(open_source(dir_ / "nowhere", status_), nullptr);
  EXPECT_FALSE(status_.ok());
  EXPECT_EQ(trouble_of(status_), Trouble::kGone);
  std::filesystem::create_directories(dir_ / "bare");
  const std::unique_ptr<Source> bare = open_source(dir_ / "bare", status_);
  ASSERT_TRUE(bare) << status_.text();
  EXPECT_TRUE(bare->empty());
}

TEST(Trouble, IsWhatTheErrorMeans) {
  const auto trouble = [](int error) { return trouble_of(base::Status(error, "reading")); };
  EXPECT_EQ(trouble_of({}), Trouble::kNone);
  EXPECT_EQ(trouble(ENOENT), Trouble::kGone);
  EXPECT_EQ(trouble(EINVAL), Trouble::kUnreadable);
  EXPECT_EQ(trouble(EPROTO), Trouble::kUnreadable);
  EXPECT_EQ(trouble(EIO), Trouble::kPassing);
}

}  // namespace
}  // namespace sonde::run
