#include "engine/model/tree.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/model/id_index.h"
#include "engine/model/trace.h"

namespace sonde::model {

namespace {

// Walks up from `i` and sets the depths on the way. A walk that comes back to its own path has
// found a cycle and cuts it there.
void settle_depth(Tree& tree, std::uint32_t i, std::vector<std::uint32_t>& path) {
  constexpr std::uint32_t kUnknown = 0xFFFFFFFFu, kOnPath = 0xFFFFFFFEu;
  path.clear();
  std::uint32_t at = i;
  while (tree.depth[at] == kUnknown) {
    tree.depth[at] = kOnPath;
    path.push_back(at);
    const std::uint32_t up = tree.parent[at];
    if (up == Tree::kNoParent) break;
    if (tree.depth[up] == kOnPath) {
      tree.parent[at] = Tree::kNoParent;
      break;
    }
    at = up;
  }
  for (auto it = path.rbegin(); it != path.rend(); ++it) {
    const std::uint32_t up = tree.parent[*it];
    tree.depth[*it] = up == Tree::kNoParent ? 0 : tree.depth[up] + 1;
  }
}

// Parents and depths; no children yet.
Tree find_parents(std::span<const Span> spans) {
  const auto count = static_cast<std::uint32_t>(spans.size());
  Tree tree;
  tree.parent.assign(count, Tree::kNoParent);
  tree.depth.assign(count, 0xFFFFFFFFu);
  const IdIndex by_id(spans);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!spans[i].parent_id) continue;
    const std::uint32_t found = by_id.find(spans[i].parent_id);
    if (found != IdIndex::kNone && found != i) tree.parent[i] = found;
  }
  std::vector<std::uint32_t> path;
  for (std::uint32_t i = 0; i < count; ++i) settle_depth(tree, i, path);
  return tree;
}

}  // namespace

std::vector<std::uint32_t> find_depths(std::span<const Span> spans) {
  return std::move(find_parents(spans).depth);
}

Tree build_tree(std::span<const Span> spans) {
  const auto count = static_cast<std::uint32_t>(spans.size());
  Tree tree = find_parents(spans);
  const auto earlier = [&](std::uint32_t a, std::uint32_t b) {
    return spans[a].start_ns != spans[b].start_ns ? spans[a].start_ns < spans[b].start_ns : a < b;
  };
  tree.first_child.assign(count + 1, 0);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (tree.parent[i] == Tree::kNoParent) {
      tree.roots.push_back(i);
    } else {
      ++tree.first_child[tree.parent[i] + 1];
    }
  }
  for (std::uint32_t i = 0; i < count; ++i) tree.first_child[i + 1] += tree.first_child[i];
  tree.children.resize(tree.first_child[count]);
  std::vector<std::uint32_t> next(tree.first_child.begin(), tree.first_child.end() - 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (tree.parent[i] != Tree::kNoParent) tree.children[next[tree.parent[i]]++] = i;
  }
  std::sort(tree.roots.begin(), tree.roots.end(), earlier);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::sort(tree.children.begin() + tree.first_child[i],
              tree.children.begin() + tree.first_child[i + 1], earlier);
  }
  return tree;
}

}  // namespace sonde::model
