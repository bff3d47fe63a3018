#include "engine/report/missing.h"

#include <gtest/gtest.h>

namespace sonde::report {
namespace {

using What = model::Missing::What;

TEST(MissingLine, SaysWhatThereIsInstead) {
  EXPECT_EQ(missing_line({What::kName, "x", {"a", "b\n"}}, "out"),
            "no span is called x; there are: a, b\\x0a");
  EXPECT_EQ(missing_line({What::kRank, "7", {"0", "1"}}, "out"),
            "no span has rank 7; the ranks are: 0, 1");
  EXPECT_EQ(missing_line({What::kRun, "4", {"1", "2"}}, "out"),
            "there is no run 4; out holds runs 1 to 2; list them with: sonde trace out");
  EXPECT_EQ(missing_line({What::kRun, "2", {"1"}}, "out"),
            "there is no run 2; out holds only run 1; list them with: sonde trace out");
  EXPECT_EQ(missing_line({What::kRun, "last", {}}, "out"),
            "there is no run last; out holds no run; list them with: sonde trace out");
}

TEST(MissingLine, NamesTenOfMany) {
  std::vector<std::string> many;
  for (char c = 'a'; c < 'a' + 12; ++c) many.emplace_back(1, c);
  EXPECT_EQ(some_of(many), "a, b, c, d, e, f, g, h, i, j and 2 more");
}

}  // namespace
}  // namespace sonde::report
