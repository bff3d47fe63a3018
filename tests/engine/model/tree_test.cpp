#include "engine/model/tree.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/support/spans.h"

namespace sonde::model {
namespace {

using sonde::testing::span;
using Indices = std::vector<std::uint32_t>;

Indices children(const Tree& tree, std::uint32_t i) {
  const auto list = tree.children_of(i);
  return {list.begin(), list.end()};
}

// What holds of every tree: each span is a root or a child once, and depths agree with parents.
void check(const Tree& tree, std::size_t count) {
  EXPECT_EQ(tree.roots.size() + tree.children.size(), count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t up = tree.parent[i];
    EXPECT_EQ(tree.depth[i], up == Tree::kNoParent ? 0 : tree.depth[up] + 1);
  }
}

TEST(Tree, OfNothing) {
  const Tree tree = build_tree({});
  EXPECT_TRUE(tree.roots.empty());
}

TEST(Tree, ChildrenAndRootsByStart) {
  const std::vector<Span> spans = {span(3, 1, "late", 20, 30), span(2, 1, "early", 10, 15),
                                   span(1, 0, "root", 5, 40), span(4, 0, "first", 0, 1)};
  const Tree tree = build_tree(spans);
  EXPECT_EQ(tree.roots, (Indices{3, 2}));
  EXPECT_EQ(children(tree, 2), (Indices{1, 0}));
  EXPECT_EQ(tree.depth, (Indices{1, 1, 0, 0}));
  check(tree, spans.size());
}

TEST(Tree, EqualStartsKeepTheirOrder) {
  const std::vector<Span> spans = {span(1, 0, "a", 0, 1), span(2, 0, "b", 0, 1),
                                   span(3, 0, "c", 0, 1)};
  EXPECT_EQ(build_tree(spans).roots, (Indices{0, 1, 2}));
}

TEST(Tree, AnUnknownParentMakesARoot) {
  const std::vector<Span> spans = {span(1, 99, "orphan", 0, 1)};
  EXPECT_EQ(build_tree(spans).roots, (Indices{0}));
}

TEST(Tree, ItsOwnParentIsARoot) {
  const std::vector<Span> spans = {span(1, 1, "self", 0, 1)};
  const Tree tree = build_tree(spans);
  EXPECT_EQ(tree.roots, (Indices{0}));
  check(tree, 1);
}

TEST(Tree, ACycleIsCut) {
  const std::vector<Span> spans = {span(1, 3, "a", 0, 1), span(2, 1, "b", 0, 1),
                                   span(3, 2, "c", 0, 1), span(4, 3, "below", 0, 1)};
  const Tree tree = build_tree(spans);
  EXPECT_EQ(tree.roots.size(), 1u);
  check(tree, spans.size());
}

TEST(Tree, ARepeatedIdLosesNoSpan) {
  const std::vector<Span> spans = {span(1, 0, "first", 0, 9), span(1, 0, "again", 1, 9),
                                   span(2, 1, "child", 2, 3)};
  const Tree tree = build_tree(spans);
  EXPECT_EQ(children(tree, 0), (Indices{2})) << "the first one keeps the children";
  check(tree, spans.size());
}

TEST(Tree, DeepChainsNeedNoStack) {
  std::vector<Span> spans;
  for (std::uint64_t i = 1; i <= 200'000; ++i) spans.push_back(span(i, i + 1, "deep", 0, 1));
  const Tree tree = build_tree(spans);
  EXPECT_EQ(tree.roots.size(), 1u);
  EXPECT_EQ(tree.depth.front(), 199'999u);
}

}  // namespace
}  // namespace sonde::model
