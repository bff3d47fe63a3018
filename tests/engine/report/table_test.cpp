#include "engine/report/table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sonde::report {
namespace {

using Row = std::vector<std::string>;

TEST(Table, AlignsByCharactersAndLeavesNoBlanksAtTheEnd) {
  const std::vector<Row> rows = {{"name", "count", "note"}, {"wärmup", "7", ""}, {"rank 0"}};
  Table table({Align::kLeft, Align::kRight, Align::kLeft});
  for (const Row& row : rows) table.fit(row);
  std::string out = "before  ";
  for (const Row& row : rows) table.append_row(out, row);
  EXPECT_EQ(out,
            "before  name    count  note\n"
            "wärmup      7\n"
            "rank 0\n");
}

TEST(Table, TextBehindTheColumnsHasNoWidth) {
  Table table({Align::kRight, Align::kLeft});
  table.fit(Row{"1", "a"});
  table.fit(Row{"22", "long"});
  std::string out;
  table.append_row(out, Row{"1", "a"}, "why it is so");
  table.append_row(out, Row{"22", "long"});
  EXPECT_EQ(out,
            " 1  a     why it is so\n"
            "22  long\n");
}

}  // namespace
}  // namespace sonde::report
