// Adds up a trace of any length to a tree of names: how often, how long, which share. Reads spans
// as a stream and keeps only those that wait for their parent, so gigabytes of spans need only a
// few megabytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/analysis/name_tree.h"
#include "engine/base/id.h"
#include "engine/model/trace.h"

namespace sonde::analysis {

// All spans of one name at one place in the tree.
struct SummaryNode {
  std::string name;
  std::uint64_t count = 0;
  std::uint64_t open = 0;     // not ended; of the figures below, only the total includes them
  std::int64_t open_ns = 0;   // how long they have been open
  std::uint64_t skipped = 0;  // steps that a scaler skipped
  std::int64_t total_ns = 0, mean_ns = 0, min_ns = 0, max_ns = 0;
  std::int64_t p50_ns = 0, p95_ns = 0;  // right to about 3 %
  std::int64_t gpu_ns = model::kNone;
  // Work was handed to a device and not waited for: the durations are the host's. The two shares
  // and the order among the siblings are then computed from gpu_ns.
  bool dispatched = false;
  // The total minus the totals of the children, not below 0 (children may run in parallel). kNone:
  // not known, because the device's time is not.
  std::int64_t self_ns = 0;
  double self_share = 0;  // NaN where self_ns is not known
  // The share of the parent's total, for a root of the total of all roots. NaN: not known.
  double share_of_parent = 0;
  std::vector<SummaryNode> children;  // longest first
};

struct RankSummary {
  std::int32_t rank = 0;
  std::vector<SummaryNode> roots;
};

struct Summary {
  std::vector<RankSummary> ranks;
  std::uint64_t spans = 0;
  std::uint64_t orphans = 0;       // waited too long for their parent: under the root "(orphans)"
  std::vector<std::string> hints;  // of the sessions in it, each once
  std::uint64_t left_out = 0;      // older spans that were no longer there to be added
  bool names_folded = false;  // too many different names: the later ones are one, "(other names)"
};

struct SummaryOptions {
  std::size_t max_waiting = 200'000;  // parents that spans may wait for at the same time
};

// Feed it the batches in the order of their files. Not thread-safe.
class Summarizer {
 public:
  explicit Summarizer(SummaryOptions options = {});
  // Spans of one batch, in any order.
  void add(std::span<const model::Span> spans);
  // Every name so far; valid as long as the summarizer.
  std::vector<std::string_view> names() const { return tree_.names(); }
  // Ends the stream. With a name: only the subtrees of that name, wherever they are.
  Summary finish(std::string_view name = {});

 private:
  using Forest = NameTree::Forest;
  struct Waiting {
    Forest children;
    std::int32_t rank = 0;
    std::uint64_t touched = 0;
  };
  // A span that came before one of its children (another thread's, a task that outlives the scope
  // it was made in): enough to find the place where such a child belongs.
  struct Seen {
    base::Id id, parent_id;
    NameTree::NameId name = 0;
  };

  void add_one(const model::Span& span);
  Forest take(const base::Id& id);
  Forest& level_of(base::Id parent_id, std::int32_t rank, std::uint32_t height);
  static std::size_t place_of(const base::Id& id, bool parent) noexcept;
  void remember(const model::Span& span, NameTree::NameId name, bool parent);
  const Seen* recall(const base::Id& id) const;
  void orphan(Forest forest, std::int32_t rank);
  void evict();
  void select(Forest from, NameTree::NameId name, Forest& out);

  SummaryOptions options_;
  NameTree tree_;
  std::map<std::int32_t, Forest> roots_;
  std::unordered_map<base::Id, Waiting, base::IdHash> waiting_;
  std::vector<Seen> seen_;
  std::vector<std::uint32_t> order_;
  std::set<std::string> hints_;
  std::uint64_t spans_ = 0;
  std::uint64_t orphans_ = 0;
};

}  // namespace sonde::analysis
