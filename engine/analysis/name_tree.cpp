#include "engine/analysis/name_tree.h"

#include <algorithm>
#include <cstdint>

#include "engine/base/attr_names.h"
#include "engine/model/trace.h"

namespace sonde::analysis {

namespace {

void add_optional(std::int64_t& sum, std::int64_t value) noexcept {
  if (value == model::kNone) return;
  sum = add_capped(sum == model::kNone ? 0 : sum, value);
}

}  // namespace

void NodeStats::add(const model::Span& span) {
  if (span.attr(base::kSkippedAttr).is_true()) ++skipped;
  if (span.dispatched()) ++dispatched;
  if (span.open()) {
    ++open;
    if (const std::int64_t so_far = span.length_ns(); so_far != model::kNone) {
      open_ns = add_capped(open_ns, so_far);
      total_ns = add_capped(total_ns, so_far);
    }
    return;
  }
  const std::int64_t duration = span.duration_ns();
  ++count;
  total_ns = add_capped(total_ns, duration);
  min_ns = std::min(min_ns, duration);
  max_ns = std::max(max_ns, duration);
  add_optional(gpu_ns, span.gpu_ns);
  if (span.gpu_ns != model::kNone) ++gpu_count;
  durations.add(duration);
}

void NodeStats::merge(const NodeStats& other) {
  count += other.count;
  open += other.open;
  skipped += other.skipped;
  open_ns = add_capped(open_ns, other.open_ns);
  total_ns = add_capped(total_ns, other.total_ns);
  min_ns = std::min(min_ns, other.min_ns);
  max_ns = std::max(max_ns, other.max_ns);
  add_optional(gpu_ns, other.gpu_ns);
  gpu_count += other.gpu_count;
  dispatched += other.dispatched;
  durations.merge(other.durations);
}

NameTree::NameTree() { intern("(other names)"); }

NameTree::NameId NameTree::intern(std::string_view name) {
  const auto found = ids_.find(name);
  if (found != ids_.end()) return found->second;
  if (names_.size() >= kMaxNames) {
    folded_ = true;
    return kOtherNames;
  }
  const auto id = static_cast<NameId>(names_.size());
  ids_.emplace(names_.emplace_back(name), id);
  return id;
}

NameTree::Node* NameTree::find(const Forest& forest, NameId name) noexcept {
  Node* node = forest.first;
  while (node != nullptr && node->name != name) node = node->next;
  return node;
}

void NameTree::link(Forest& forest, Node& node) noexcept {
  node.next = forest.first;
  forest.first = &node;
  ++forest.size;
}

NameTree::Node& NameTree::allocate(NameId name) {
  Node* node = free_;
  if (node != nullptr) {
    free_ = node->next;
  } else {
    node = &pool_.emplace_back();
  }
  node->name = name;
  return *node;
}

void NameTree::release(Node& node) {
  node = Node{};
  node.next = free_;
  free_ = &node;
}

NameTree::Node& NameTree::find_or_add(Forest& forest, NameId name) {
  if (Node* found = find(forest, name)) return *found;
  if (forest.size >= kMaxChildren && name != kOtherNames) {
    folded_ = true;
    return find_or_add(forest, kOtherNames);
  }
  Node& node = allocate(name);
  link(forest, node);
  forest.height = std::max(forest.height, 1u);
  return node;
}

void NameTree::merge(Forest& into, Forest from) {
  into.height = std::max(into.height, from.height);
  for (Node* node = from.first; node != nullptr;) {
    Node* const next = node->next;
    if (into.size < kMaxChildren && find(into, node->name) == nullptr) {
      link(into, *node);
    } else {
      Node& target = find_or_add(into, node->name);
      target.stats.merge(node->stats);
      merge(target.children, node->children);
      release(*node);
    }
    node = next;
  }
}

std::uint64_t NameTree::span_count(const Forest& forest) {
  std::uint64_t sum = 0;
  for (const Node* node = forest.first; node != nullptr; node = node->next) {
    sum += node->stats.count + node->stats.open + span_count(node->children);
  }
  return sum;
}

}  // namespace sonde::analysis
