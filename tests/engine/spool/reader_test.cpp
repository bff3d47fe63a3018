#include "engine/spool/reader.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/engine/support/temp_dir.h"

namespace sonde::spool {
namespace {

using codec::Detail;
using sonde::testing::TempDir;

const std::string kReference = std::string(SONDE_SOURCE_DIR) + "/tests/data/reference-spool";

class FileReaderTest : public ::testing::Test {
 protected:
  FileReader reader_;
  model::Batch batch_;
};

TEST_F(FileReaderTest, ReadsTheReferencesSpool) {
  std::vector<std::string> files;
  ASSERT_TRUE(find_files(kReference, files).ok());
  ASSERT_EQ(files.size(), 3u);
  std::map<std::string, int> spans, marks;
  for (const Detail detail : {Detail::kAll, Detail::kTimings}) {
    spans.clear();
    for (const std::string& file : files) {
      const base::Status status = reader_.read(file, batch_, detail);
      ASSERT_TRUE(status.ok()) << status.text();
      for (const model::Span& span : batch_.spans) ++spans[std::string(span.name)];
      for (const model::Mark& mark : batch_.marks) ++marks[std::string(mark.name)];
    }
    EXPECT_EQ(spans, (std::map<std::string, int>{{"epoch", 2},
                                                 {"batch", 6},
                                                 {"augment", 6},
                                                 {"thread_scope", 1},
                                                 {"cirron.session", 1}}));
  }
  EXPECT_EQ(marks["epoch_loss"], 2);
  EXPECT_EQ(marks["phase"], 6);
}

TEST_F(FileReaderTest, ErrorsNameTheFile) {
  TempDir dir;
  std::ofstream(dir / "x.json") << "{";
  EXPECT_NE(reader_.read(dir / "x.json", batch_).text().find(dir / "x.json"), std::string::npos);
  EXPECT_EQ(reader_.read(dir / "missing.json", batch_).error(), ENOENT);
  EXPECT_EQ(reader_.read(dir.path(), batch_).error(), EINVAL);
}

TEST(FindFiles, FromEveryNameAUserMightGive) {
  TempDir dir;
  std::filesystem::create_directories(dir / "out/spool");
  for (const char* name : {"out/spool/2.json", "out/spool/1.json", "out/spool/3.json.tmp"})
    std::ofstream(dir / name) << "{}";
  const std::vector<std::string> expected = {dir / "out/spool/1.json", dir / "out/spool/2.json"};
  std::vector<std::string> files;
  ASSERT_TRUE(find_files(dir / "out", files).ok());
  EXPECT_EQ(files, expected);
  ASSERT_TRUE(find_files(dir / "out/spool", files).ok());
  EXPECT_EQ(files, expected);
  ASSERT_TRUE(find_files(dir / "out/spool/1.json", files).ok());
  EXPECT_EQ(files, std::vector<std::string>{expected[0]});
  EXPECT_EQ(find_files(dir / "nothing", files).error(), ENOENT);
}

}  // namespace
}  // namespace sonde::spool
