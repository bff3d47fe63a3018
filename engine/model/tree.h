// Parents and children over a list of spans, shared by trace() and the commands.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/trace.h"

namespace sonde::model {

// Indices into the span list it was built from. A span whose parent is not in the list is a root.
struct Tree {
  static constexpr std::uint32_t kNoParent = 0xFFFFFFFFu;
  std::vector<std::uint32_t> parent;       // per span
  std::vector<std::uint32_t> depth;        // per span: ancestors in the list
  std::vector<std::uint32_t> roots;        // by start
  std::vector<std::uint32_t> first_child;  // per span: start of its children in `children`
  std::vector<std::uint32_t> children;     // grouped by parent, by start within one
  std::span<const std::uint32_t> children_of(std::uint32_t i) const {
    return {children.data() + first_child[i], children.data() + first_child[i + 1]};
  }
};

// Never fails: a cycle or a repeated id in a damaged file leaves the later span a root.
Tree build_tree(std::span<const Span> spans);

// Only Tree::depth of it, for a table that needs no more.
std::vector<std::uint32_t> find_depths(std::span<const Span> spans);

}  // namespace sonde::model
