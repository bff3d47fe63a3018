#include "engine/analysis/summary.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace sonde::analysis {

namespace {

// Recursion over forests goes this deep at most; recording allows 64 levels per thread.
constexpr std::uint32_t kMaxHeight = 256;
constexpr std::size_t kSeenEntries = std::size_t{1} << 16;
constexpr std::string_view kOrphans = "(orphans)";

std::int64_t end_of(const model::Span& span) noexcept {
  return span.open() ? std::numeric_limits<std::int64_t>::max() : span.end_ns;
}

}  // namespace

Summarizer::Summarizer(SummaryOptions options) : options_(options), seen_(kSeenEntries) {}

// A batch is grouped by thread, so a parent may stand before the children other threads gave it. By
// time of closing it comes after them; equal times keep the order in which their thread wrote them.
void Summarizer::add(std::span<const model::Span> spans) {
  const auto earlier = [](const model::Span& a, const model::Span& b) {
    return end_of(a) < end_of(b);
  };
  if (std::is_sorted(spans.begin(), spans.end(), earlier)) {
    for (const model::Span& span : spans) add_one(span);
    return;
  }
  order_.resize(spans.size());
  std::iota(order_.begin(), order_.end(), 0u);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return earlier(spans[a], spans[b]); });
  for (const std::uint32_t i : order_) add_one(spans[i]);
}

void Summarizer::add_one(const model::Span& span) {
  ++spans_;
  const NameTree::NameId name = tree_.intern(span.name);
  Forest below = take(span.id);
  const bool parent = below.first != nullptr;
  if (below.height + 1 >= kMaxHeight) {
    orphan(below, span.rank);
    below = {};
  }
  Forest& level = level_of(span.parent_id, span.rank, below.height + 1);
  NameTree::Node& node = tree_.find_or_add(level, name);
  node.stats.add(span);
  if (below.first != nullptr) tree_.merge(node.children, below);
  level.height = std::max(level.height, below.height + 1);
  remember(span, name, parent);
  if (waiting_.size() > options_.max_waiting) evict();
}

Summarizer::Forest Summarizer::take(const base::Id& id) {
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return {};
  const Forest children = found->second.children;
  waiting_.erase(found);
  return children;
}

// Where a child of `parent_id` belongs: among those that wait for it, or, if it has already come,
// under its name wherever that is by now.
Summarizer::Forest& Summarizer::level_of(base::Id parent_id, std::int32_t rank,
                                         std::uint32_t height) {
  std::array<NameTree::NameId, kMaxHeight> path;
  std::uint32_t climbed = 0;
  Forest* level = nullptr;
  while (level == nullptr) {
    if (!parent_id) {
      level = &roots_[rank];
    } else if (const auto found = waiting_.find(parent_id); found != waiting_.end()) {
      found->second.touched = spans_;
      level = &found->second.children;
    } else if (const Seen* seen = recall(parent_id);
               seen != nullptr && climbed + height < kMaxHeight) {
      path[climbed++] = seen->name;
      parent_id = seen->parent_id;
    } else {
      level = &waiting_.emplace(parent_id, Waiting{{}, rank, spans_}).first->second.children;
    }
  }
  while (climbed > 0) {
    NameTree::Node& node = tree_.find_or_add(*level, path[--climbed]);
    level->height = std::max(level->height, climbed + 1 + height);
    level = &node.children;
  }
  return *level;
}

// A table of fixed size: one place per hash for spans that had children, one for those that had
// none yet, which are many and rarely asked for.
std::size_t Summarizer::place_of(const base::Id& id, bool parent) noexcept {
  return (id.lo ^ (id.hi >> 7)) % (kSeenEntries / 2) * 2 + (parent ? 0 : 1);
}

void Summarizer::remember(const model::Span& span, NameTree::NameId name, bool parent) {
  seen_[place_of(span.id, parent)] = {span.id, span.parent_id, name};
}

const Summarizer::Seen* Summarizer::recall(const base::Id& id) const {
  for (const bool parent : {true, false}) {
    const Seen& seen = seen_[place_of(id, parent)];
    if (seen.id == id) return &seen;
  }
  return nullptr;
}

void Summarizer::orphan(Forest forest, std::int32_t rank) {
  orphans_ += NameTree::span_count(forest);
  NameTree::Node& node = tree_.find_or_add(roots_[rank], tree_.intern(kOrphans));
  tree_.merge(node.children, forest);
}

// Gives up on the parents that were heard of longest ago, half of all, so that the search for them
// is paid for by as many spans.
void Summarizer::evict() {
  std::vector<std::uint64_t> ages;
  ages.reserve(waiting_.size());
  for (const auto& [id, waiting] : waiting_) ages.push_back(waiting.touched);
  const auto middle = ages.begin() + static_cast<std::ptrdiff_t>(ages.size() / 2);
  std::nth_element(ages.begin(), middle, ages.end());
  const std::uint64_t limit = *middle;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (it->second.touched > limit) {
      ++it;
      continue;
    }
    orphan(it->second.children, it->second.rank);
    it = waiting_.erase(it);
  }
}

namespace {

SummaryNode finish_node(const NameTree& tree, const NameTree::Node& node);

std::vector<SummaryNode> finish_forest(const NameTree& tree, const NameTree::Forest& forest,
                                       std::int64_t whole_ns) {
  std::vector<SummaryNode> out;
  for (const NameTree::Node* node = forest.first; node != nullptr; node = node->next) {
    out.push_back(finish_node(tree, *node));
  }
  if (whole_ns <= 0) {
    whole_ns = 0;
    for (const SummaryNode& node : out) whole_ns = add_capped(whole_ns, node.total_ns);
  }
  for (SummaryNode& node : out) {
    node.share_of_parent =
        whole_ns > 0 ? static_cast<double>(node.total_ns) / static_cast<double>(whole_ns) : 0;
  }
  std::sort(out.begin(), out.end(), [](const SummaryNode& a, const SummaryNode& b) {
    return a.total_ns != b.total_ns ? a.total_ns > b.total_ns : a.name < b.name;
  });
  return out;
}

SummaryNode finish_node(const NameTree& tree, const NameTree::Node& node) {
  SummaryNode out;
  const NodeStats& stats = node.stats;
  out.name = tree.name(node.name);
  out.count = stats.count;
  out.open = stats.open;
  out.open_ns = stats.open_ns;
  out.skipped = stats.skipped;
  out.total_ns = stats.total_ns;
  out.gpu_ns = stats.gpu_ns;
  out.max_ns = stats.max_ns;
  if (stats.count > 0) {
    out.min_ns = stats.min_ns;
    out.mean_ns = (stats.total_ns - stats.open_ns) / static_cast<std::int64_t>(stats.count);
    out.p50_ns = std::clamp(stats.durations.quantile(0.50), stats.min_ns, stats.max_ns);
    out.p95_ns = std::clamp(stats.durations.quantile(0.95), stats.min_ns, stats.max_ns);
  }
  std::int64_t below = 0;
  for (const NameTree::Node* child = node.children.first; child != nullptr; child = child->next) {
    below = add_capped(below, child->stats.total_ns);
  }
  // A parent that is open, and of which nobody knows for how long, may still have children.
  const std::int64_t whole = stats.open != 0 ? std::max(stats.total_ns, below) : stats.total_ns;
  out.children = finish_forest(tree, node.children, whole);
  out.self_ns = std::max<std::int64_t>(out.total_ns - below, 0);
  return out;
}

}  // namespace

// The topmost nodes of that name, added up; what is above and beside them is left where it is.
void Summarizer::select(Forest from, NameTree::NameId name, Forest& out) {
  for (NameTree::Node* node = from.first; node != nullptr;) {
    NameTree::Node* const next = node->next;
    if (node->name == name) {
      node->next = nullptr;
      tree_.merge(out, {node, 1, node->children.height + 1});
    } else {
      select(node->children, name, out);
    }
    node = next;
  }
}

Summary Summarizer::finish(std::string_view name) {
  for (auto& [id, waiting] : waiting_) tree_.merge(roots_[waiting.rank], waiting.children);
  waiting_.clear();
  Summary summary;
  for (auto& [rank, forest] : roots_) {
    Forest wanted = forest;
    if (!name.empty()) {
      wanted = {};
      select(forest, tree_.intern(name), wanted);
      if (wanted.first == nullptr) continue;
    }
    summary.ranks.push_back({rank, finish_forest(tree_, wanted, 0)});
  }
  roots_.clear();
  summary.spans = spans_;
  summary.orphans = orphans_;
  summary.names_folded = tree_.folded();
  return summary;
}

}  // namespace sonde::analysis
