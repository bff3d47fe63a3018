#include "engine/run/locate.h"

#include <utime.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tests/engine/support/temp_dir.h"

namespace sonde::run {
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
  Location place_;
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

// Its modification time, in seconds since some day.
void set_age(const std::string& folder, time_t seconds) {
  const utimbuf times{seconds, seconds};
  ASSERT_EQ(::utime(folder.c_str(), &times), 0);
}

TEST_F(Locate, TheNewestOfSeveralFoldersInAFolder) {
  std::filesystem::create_directories(dir_ / "work/second/live");
  std::filesystem::create_directories(dir_ / "work/third/notes");
  set_age(dir_ / "work/.cirron/spool", 1000);
  set_age(dir_ / "work/.cirron/live", 3000);
  set_age(dir_ / "work/second/live", 2000);
  ASSERT_TRUE(locate(dir_ / "work", place_).ok());
  EXPECT_EQ(place_.output_dir, dir_ / "work/.cirron");
  set_age(dir_ / "work/second/live", 4000);
  ASSERT_TRUE(locate(dir_ / "work/", place_).ok());
  EXPECT_EQ(place_.output_dir, dir_ / "work/second");
  EXPECT_EQ(place_.called, dir_ / "work/");
}

// Runs a test in another working directory.
class In {
 public:
  explicit In(const std::string& directory) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(directory);
  }
  ~In() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

TEST_F(Locate, WithoutANameTheNewestRunOfTheWorkingDirectory) {
  {
    const In work(dir_ / "work");
    ASSERT_TRUE(locate("", place_).ok());
    EXPECT_EQ(place_.output_dir, ".cirron");
    EXPECT_EQ(place_.called, ".cirron");
    EXPECT_EQ(place_.files, std::vector<std::string>{".cirron/spool/1.json"});
  }
  {
    const In output(dir_ / "work/.cirron");
    ASSERT_TRUE(locate("", place_).ok());
    EXPECT_EQ(place_.output_dir, ".");
    EXPECT_EQ(place_.files.size(), 1u);
  }
  {
    const In above(dir_.path());
    ASSERT_TRUE(locate("", place_).ok());
    EXPECT_EQ(place_.output_dir, "work/.cirron");
  }
  std::filesystem::create_directories(dir_ / "higher/up");
  std::filesystem::rename(dir_ / "work", dir_ / "higher/up/work");
  const In above(dir_ / "higher");
  EXPECT_EQ(locate("", place_).error(), ENOENT) << "it is three levels down";
}

// As an API has it that gives each session a folder: ./logs/<session>/spool.
TEST_F(Locate, TheNewestOfTheFoldersInAFolder) {
  std::filesystem::create_directories(dir_ / "work/logs/first/spool");
  std::filesystem::create_directories(dir_ / "work/logs/second/spool");
  std::filesystem::create_directories(dir_ / "work/other/third/live");
  set_age(dir_ / "work/logs/first/spool", 1000);
  set_age(dir_ / "work/logs/second/spool", 3000);
  set_age(dir_ / "work/other/third/live", 2000);
  set_age(dir_ / "work/.cirron/spool", 10);
  set_age(dir_ / "work/.cirron/live", 10);
  const In work(dir_ / "work");
  ASSERT_TRUE(locate("", place_).ok());
  EXPECT_EQ(place_.output_dir, ".cirron") << "the first level counts, if it has a run";
  std::filesystem::remove_all(dir_ / "work/.cirron");
  ASSERT_TRUE(locate("", place_).ok());
  EXPECT_EQ(place_.output_dir, "logs/second");
}

TEST_F(Locate, NothingThere) { EXPECT_EQ(locate(dir_ / "nothing", place_).error(), ENOENT); }

}  // namespace
}  // namespace sonde::run
