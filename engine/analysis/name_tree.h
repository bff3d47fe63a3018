// Trees of names with the statistics of all spans that stand at the same place. Nodes live in one
// pool and move between trees by relinking, because a stream of spans builds and merges a small
// tree per training step.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/analysis/histogram.h"
#include "engine/model/trace.h"

namespace sonde::analysis {

// Sums of durations out of damaged files must not overflow; the largest value stands for more.
inline std::int64_t add_capped(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

struct NodeStats {
  std::uint64_t count = 0;
  std::uint64_t open = 0;  // began and did not end: not in count, and in no figure but the totals
  std::uint64_t skipped = 0;  // steps that a scaler skipped
  std::int64_t open_ns = 0;   // how long the open ones have been open
  std::int64_t total_ns = 0;  // includes open_ns
  std::int64_t min_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_ns = 0;
  std::int64_t gpu_ns = model::kNone;
  std::uint64_t gpu_count = 0;   // of those whose gpu_ns is known
  std::uint64_t dispatched = 0;  // whose duration is the host's alone; counts open ones too
  Histogram durations;

  void add(const model::Span& span);
  void merge(const NodeStats& other);
};

class NameTree {
 public:
  using NameId = std::uint32_t;
  static constexpr NameId kOtherNames = 0;  // where names beyond the limits are added up
  static constexpr std::uint32_t kMaxNames = 1u << 16;
  static constexpr std::uint32_t kMaxChildren = 256;  // different names under one node

  struct Node;
  // Siblings with different names.
  struct Forest {
    Node* first = nullptr;
    std::uint32_t size = 0;
    std::uint32_t height = 0;  // at least its number of levels
  };
  struct Node {
    NameId name = kOtherNames;
    Node* next = nullptr;
    Forest children;
    NodeStats stats;
  };

  NameTree();
  NameId intern(std::string_view name);
  std::string_view name(NameId id) const { return names_[id]; }
  // All names, without the one that stands for the rest.
  std::vector<std::string_view> names() const { return {names_.begin() + 1, names_.end()}; }

  // The node of that name, created if needed. Stays valid until it is merged into another.
  Node& find_or_add(Forest& forest, NameId name);
  // Moves everything from one forest into the other. Recurses as deep as the lower of the two.
  void merge(Forest& into, Forest from);
  // Spans counted in it.
  static std::uint64_t span_count(const Forest& forest);
  // Whether names had to be added up in kOtherNames.
  bool folded() const noexcept { return folded_; }

 private:
  static Node* find(const Forest& forest, NameId name) noexcept;
  static void link(Forest& forest, Node& node) noexcept;
  Node& allocate(NameId name);
  void release(Node& node);

  std::deque<Node> pool_;
  Node* free_ = nullptr;
  std::deque<std::string> names_;
  std::unordered_map<std::string_view, NameId> ids_;
  bool folded_ = false;
};

}  // namespace sonde::analysis
