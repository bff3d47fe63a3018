#include "engine/analysis/summary.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/analysis/name_tree.h"
#include "engine/base/attr_names.h"
#include "engine/model/trace.h"

namespace sonde::analysis {

namespace {

// Recursion over forests goes this deep at most; recording allows 64 levels per thread.
constexpr std::uint32_t kMaxHeight = 256;
constexpr std::size_t kSeenEntries = std::size_t{1} << 16;
constexpr std::string_view kOrphans = "(orphans)";

}  // namespace

Summarizer::Summarizer(SummaryOptions options) : options_(options), seen_(kSeenEntries) {}

// A batch is grouped by thread, so a parent may come before children from other threads. Sorted by
// their end, children come first; spans with equal ends keep the order in which they were written.
void Summarizer::add(std::span<const model::Span> spans) {
  const auto earlier = [](const model::Span& a, const model::Span& b) {
    return a.end_or_never_ns() < b.end_or_never_ns();
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
  if (!span.parent_id && !span.attrs.empty()) {
    if (std::string hint = span.attr(base::kHintAttr).text(); !hint.empty())
      hints_.insert(std::move(hint));
  }
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

// Where a child of `parent_id` belongs: among those that wait for the parent or, if the parent has
// already come, below the node that the parent was added to.
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

// A table of fixed size. Spans with children and spans without any yet have separate places, so
// that the latter, which are many and rarely needed, do not displace the former.
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

// Gives up on the half of the parents that were last seen longest ago. Giving up on many at a time
// keeps the cost per span low.
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

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double share(std::int64_t part, std::int64_t whole) {
  if (part == model::kNone || whole == model::kNone) return kUnknown;
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// The device's time, if it is known for every span.
std::int64_t device_ns(const NodeStats& stats) {
  return stats.count > 0 && stats.gpu_count == stats.count ? stats.gpu_ns : model::kNone;
}

// The time by which a node is compared with others.
std::int64_t compared_ns(const NodeStats& stats) {
  return stats.dispatched != 0 ? device_ns(stats) : stats.total_ns;
}

// The time of a parent that is compared with its children's device time: its own device time, else
// its wall time, unless that ends before the device does.
std::int64_t whole_on_device(const NodeStats& parent) {
  const std::int64_t device = device_ns(parent);
  return device != model::kNone || parent.dispatched != 0 ? device : parent.total_ns;
}

struct Below {
  std::int64_t total_ns = 0;     // by the host's clock
  std::int64_t compared_ns = 0;  // kNone: not known of all
  bool dispatched = false;
};

Below add_up(const NameTree::Forest& forest) {
  Below below;
  for (const NameTree::Node* child = forest.first; child != nullptr; child = child->next) {
    const std::int64_t compared = compared_ns(child->stats);
    below.total_ns = add_capped(below.total_ns, child->stats.total_ns);
    below.compared_ns = compared == model::kNone || below.compared_ns == model::kNone
                            ? model::kNone
                            : add_capped(below.compared_ns, compared);
    below.dispatched = below.dispatched || child->stats.dispatched != 0;
  }
  return below;
}

SummaryNode finish_node(const NameTree& tree, const NameTree::Node& node);

// `parent`: nullptr for roots, whose shares are of their sum.
std::vector<SummaryNode> finish_forest(const NameTree& tree, const NameTree::Forest& forest,
                                       const NodeStats* parent, std::int64_t whole_ns) {
  if (whole_ns <= 0) whole_ns = add_up(forest).total_ns;
  std::vector<std::pair<std::int64_t, SummaryNode>> found;
  for (const NameTree::Node* node = forest.first; node != nullptr; node = node->next) {
    const NodeStats& stats = node->stats;
    const bool on_device = stats.dispatched != 0 || (parent != nullptr && parent->dispatched != 0);
    SummaryNode& out = found.emplace_back(0, finish_node(tree, *node)).second;
    const std::int64_t device = device_ns(stats);
    out.share_of_parent = !on_device          ? share(stats.total_ns, whole_ns)
                          : parent == nullptr ? kUnknown
                                              : share(device, whole_on_device(*parent));
    const std::int64_t compared = compared_ns(stats);
    found.back().first = compared == model::kNone ? stats.total_ns : compared;
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second.name < b.second.name;
  });
  std::vector<SummaryNode> out;
  out.reserve(found.size());
  for (auto& [time, node] : found) out.push_back(std::move(node));
  return out;
}

void finish_self(SummaryNode& out, const NodeStats& stats, const Below& below) {
  const bool on_device = stats.dispatched != 0 || below.dispatched;
  const std::int64_t whole = on_device ? whole_on_device(stats) : stats.total_ns;
  const std::int64_t parts = on_device ? below.compared_ns : below.total_ns;
  const bool known = whole != model::kNone && parts != model::kNone;
  out.self_ns = known ? std::max<std::int64_t>(whole - parts, 0) : model::kNone;
  out.self_share = share(out.self_ns, whole);
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
  out.dispatched = stats.dispatched != 0;
  out.max_ns = stats.max_ns;
  if (stats.count > 0) {
    out.min_ns = stats.min_ns;
    out.mean_ns = (stats.total_ns - stats.open_ns) / static_cast<std::int64_t>(stats.count);
    out.p50_ns = std::clamp(stats.durations.quantile(0.50), stats.min_ns, stats.max_ns);
    out.p95_ns = std::clamp(stats.durations.quantile(0.95), stats.min_ns, stats.max_ns);
  }
  const Below below = add_up(node.children);
  // A parent that is still open has no duration yet, but its children do.
  const std::int64_t whole =
      stats.open != 0 ? std::max(stats.total_ns, below.total_ns) : stats.total_ns;
  out.children = finish_forest(tree, node.children, &stats, whole);
  finish_self(out, stats, below);
  return out;
}

}  // namespace

// Adds up the topmost nodes of that name; nodes above and beside them stay where they are.
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
    summary.ranks.push_back({rank, finish_forest(tree_, wanted, nullptr, 0)});
  }
  roots_.clear();
  summary.spans = spans_;
  summary.orphans = orphans_;
  summary.hints.assign(hints_.begin(), hints_.end());
  summary.names_folded = tree_.folded();
  return summary;
}

}  // namespace sonde::analysis
