#include "engine/journal/mark_lists.h"

#include <vector>

#include <gtest/gtest.h>

namespace sonde::journal {
namespace {

const base::Id kKey{11, 22};

std::vector<base::Id> taken(MarkLists& lists, std::uint64_t span) {
  std::vector<base::Id> ids;
  const std::uint32_t count = lists.take(span, kKey, ids);
  EXPECT_EQ(count, ids.size());
  return ids;
}

std::vector<base::Id> ids_of(std::initializer_list<std::uint64_t> marks) {
  std::vector<base::Id> ids;
  for (const std::uint64_t mark : marks) ids.push_back(base::make_id(kKey, mark));
  return ids;
}

TEST(MarkLists, OldestFirstAndForgottenOnceTaken) {
  MarkLists lists;
  for (const std::uint64_t mark : {5u, 3u, 9u}) lists.add(1, mark);
  EXPECT_EQ(taken(lists, 1), ids_of({5, 3, 9}));
  EXPECT_TRUE(taken(lists, 1).empty());
}

TEST(MarkLists, SpanWithoutMarksHasNone) {
  MarkLists lists;
  EXPECT_TRUE(taken(lists, 1).empty());
  lists.add(1, 5);
  EXPECT_TRUE(taken(lists, 2).empty());
  EXPECT_EQ(taken(lists, 1), ids_of({5}));
}

TEST(MarkLists, InterleavedSpansKeepTheirOwn) {
  MarkLists lists;
  for (std::uint64_t round = 0; round < 3; ++round) {
    for (std::uint64_t span = 1; span <= 4; ++span) lists.add(span, 10 * span + round);
  }
  EXPECT_EQ(taken(lists, 2), ids_of({20, 21, 22}));
  lists.add(3, 33);
  EXPECT_EQ(taken(lists, 3), ids_of({30, 31, 32, 33}));
  EXPECT_EQ(taken(lists, 4), ids_of({40, 41, 42}));
  EXPECT_EQ(taken(lists, 1), ids_of({10, 11, 12}));
}

TEST(MarkLists, LongListKeepsTheNewest) {
  MarkLists lists;
  constexpr std::uint64_t kMarks = 5000;
  for (std::uint64_t mark = 1; mark <= kMarks; ++mark) {
    lists.add(7, mark);
    if (mark % 500 == 0) lists.add(8, 1);  // moves the list out of the fast place and back
  }
  const std::vector<base::Id> ids = taken(lists, 7);
  ASSERT_EQ(ids.size(), std::size_t{MarkLists::kMaxListed});
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(ids[i], base::make_id(kKey, kMarks - MarkLists::kMaxListed + 1 + i));
}

TEST(MarkLists, ListIsFreshAfterAFullOneWasTaken) {
  MarkLists lists;
  for (std::uint64_t mark = 1; mark <= 2000; ++mark) lists.add(7, mark);
  taken(lists, 7);
  lists.add(7, 1);
  lists.add(7, 2);
  EXPECT_EQ(taken(lists, 7), ids_of({1, 2}));
}

TEST(MarkLists, SpansThatNeverComeDoNotPileUp) {
  MarkLists lists;
  for (std::uint64_t span = 1; span <= 3 * MarkLists::kMaxSpans; ++span) lists.add(span, span);
  std::size_t kept = 0;
  for (std::uint64_t span = 1; span <= 3 * MarkLists::kMaxSpans; ++span)
    kept += taken(lists, span).size();
  EXPECT_LE(kept, MarkLists::kMaxSpans + 1);
  EXPECT_GE(kept, 1u);
}

}  // namespace
}  // namespace sonde::journal
