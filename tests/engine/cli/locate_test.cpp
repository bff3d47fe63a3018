#include "engine/cli/locate.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>

#include "tests/engine/support/temp_dir.h"

namespace sonde::cli {
namespace {

using sonde::testing::TempDir;

class Locate : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(dir_ / "work/.cirron/spool");
    std::filesystem::create_directories(dir_ / "work/.cirron/live");
    std::ofstream(dir_ / "work/.cirron/spool/1.json") << "{}";
    std::ofstream(dir_ / "work/.cirron/live/7.journal") << "x";
  }
  TempDir dir_;
  Place place_;
};

TEST_F(Locate, EveryNameOfOneRun) {
  for (const char* name :
       {"work/.cirron", "work/.cirron/", "work", "work/.cirron/spool", "work/.cirron/live/"}) {
    ASSERT_TRUE(locate(dir_ / name, place_).ok()) << name;
    EXPECT_EQ(place_.output_dir, dir_ / "work/.cirron") << name;
    EXPECT_EQ(place_.files, std::vector<std::string>{dir_ / "work/.cirron/spool/1.json"}) << name;
    EXPECT_EQ(place_.journals, std::vector<std::string>{dir_ / "work/.cirron/live/7.journal"})
        << name;
  }
}

TEST_F(Locate, OneFile) {
  ASSERT_TRUE(locate(dir_ / "work/.cirron/spool/1.json", place_).ok());
  EXPECT_TRUE(place_.output_dir.empty());
  EXPECT_EQ(place_.files.size(), 1u);
  EXPECT_TRUE(place_.journals.empty());
  EXPECT_TRUE(refresh(place_).ok());
  EXPECT_EQ(place_.files.size(), 1u);
}

TEST_F(Locate, ABareFolderOfSpoolFiles) {
  std::filesystem::create_directories(dir_ / "copied");
  std::ofstream(dir_ / "copied/2.json") << "{}";
  ASSERT_TRUE(locate(dir_ / "copied", place_).ok());
  EXPECT_EQ(place_.files, std::vector<std::string>{dir_ / "copied/2.json"});
}

TEST_F(Locate, NothingThere) { EXPECT_EQ(locate(dir_ / "nothing", place_).error(), ENOENT); }

}  // namespace
}  // namespace sonde::cli
