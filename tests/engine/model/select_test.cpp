#include "engine/model/select.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/model/mark_index.h"
#include "tests/engine/support/spans.h"

namespace sonde::model {
namespace {

using sonde::testing::mark;
using sonde::testing::span;

const std::vector<Span> kSpans = {
    span(4, 3, "forward", 2, 3), span(3, 2, "step", 1, 4),        span(2, 1, "epoch", 0, 5),
    span(5, 1, "step", 6, 7),    span(1, 0, "session", 0, kNone),
};

std::string names(const std::vector<Span>& spans) {
  std::string out;
  for (const Span& span : spans) out += (out.empty() ? "" : " ") + std::string(span.name);
  return out;
}

TEST(Select, ANameBringsWhatIsBelowIt) {
  EXPECT_EQ(names(select_name(kSpans, "step")), "forward step step");
  EXPECT_EQ(names(select_name(kSpans, "epoch")), "forward step epoch");
  EXPECT_EQ(names(select_name(kSpans, "nothing")), "");
}

TEST(Select, LastIsNewestFirstAndOpenIsNewest) {
  EXPECT_EQ(names(select_last(kSpans, 3)), "session step epoch");
  EXPECT_EQ(names(select_last(kSpans, 100)), "session step epoch step forward");
  EXPECT_EQ(names(select_last(kSpans, 0)), "");
}

TEST(MarkIndex, GroupsBySpanInOrderOfArrival) {
  const std::vector<Mark> marks = {mark(1, 7, "a", 1), mark(2, 3, "b", 2), mark(3, 7, "c", 3)};
  const MarkIndex index(marks);
  ASSERT_EQ(index.of({0, 7}).size(), 2u);
  EXPECT_EQ(index.of({0, 7})[0]->name, "a");
  EXPECT_EQ(index.of({0, 7})[1]->name, "c");
  EXPECT_EQ(index.of({0, 3}).size(), 1u);
  EXPECT_TRUE(index.of({0, 1}).empty());
  EXPECT_TRUE(MarkIndex().of({0, 1}).empty());
}

}  // namespace
}  // namespace sonde::model
