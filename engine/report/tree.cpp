#include "engine/report/tree.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/analysis/name_tree.h"
#include "engine/model/ending.h"
#include "engine/model/line.h"
#include "engine/model/mark_index.h"
#include "engine/model/runs.h"
#include "engine/model/trace.h"
#include "engine/model/tree.h"
#include "engine/report/hint.h"
#include "engine/report/runs.h"

namespace sonde::report {

namespace {

using Children = std::span<const std::uint32_t>;

class TreeText {
 public:
  TreeText(std::span<const model::Span> spans, std::span<const model::Mark> marks,
           const TreeOptions& options)
      : spans_(spans), tree_(model::build_tree(spans)), marks_(marks), options_(options) {}

  std::string draw() {
    std::map<std::int32_t, RootsOfRun> ranks;
    for (const std::uint32_t root : tree_.roots)
      ranks[spans_[root].rank][run_of(root)].push_back(root);
    const bool several_runs = std::any_of(ranks.begin(), ranks.end(),
                                          [](const auto& rank) { return rank.second.size() > 1; });
    for (const auto& [rank, runs] : ranks) {
      const bool several = ranks.size() > 1;
      if (several) out_ += fmt::format("rank {}\n", rank);
      if (several_runs) {
        draw_runs(runs, several ? 1 : 0);
      } else {
        siblings(runs.begin()->second, several ? 1 : 0);
      }
    }
    for (const std::string& hint : hints()) append_hint(out_, hint);
    return std::move(out_);
  }

 private:
  std::set<std::string> hints() const {
    std::set<std::string> found;
    for (const std::uint32_t root : tree_.roots) {
      if (std::string hint = spans_[root].attr(model::kHintAttr).text(); !hint.empty())
        found.insert(std::move(hint));
    }
    return found;
  }

  using RootsOfRun = std::map<std::size_t, std::vector<std::uint32_t>>;

  std::size_t run_of(std::uint32_t root) const {
    return options_.runs == nullptr ? 0 : options_.runs->part_of(spans_[root]).run;
  }

  // Beyond the limit, only the newest runs are drawn.
  void draw_runs(const RootsOfRun& runs, std::size_t depth) {
    std::size_t earlier = 0;
    if (options_.sibling_limit != 0 && runs.size() > options_.sibling_limit)
      earlier = runs.size() - options_.sibling_limit;
    if (earlier != 0) out_ += fmt::format("{:{}}... {} earlier runs\n", "", 2 * depth, earlier);
    for (const auto& [run, roots] : runs) {
      if (earlier != 0) {
        --earlier;
        continue;
      }
      const model::RunPart& part = options_.runs->part_of(spans_[roots.front()]);
      out_.append(2 * depth, ' ');
      out_ += run_heading(part, *options_.runs, options_.number_runs) + '\n';
      siblings(roots, depth + 1);
    }
  }

  // Same-named siblings beyond the limit.
  struct Rest {
    std::size_t seen = 0;
    std::size_t left_out = 0;
    std::size_t closed = 0, dispatched = 0, on_device = 0;
    std::int64_t total_ns = 0, device_ns = 0;
  };
  using RestByName = std::unordered_map<std::string_view, Rest>;

  bool beyond_limit(Rest& rest) const {
    return options_.sibling_limit != 0 && ++rest.seen > options_.sibling_limit;
  }

  RestByName count_rest(Children list) const {
    RestByName rests;
    for (const std::uint32_t i : list) {
      Rest& rest = rests[spans_[i].name];
      if (!beyond_limit(rest)) continue;
      ++rest.left_out;
      if (spans_[i].open()) continue;
      ++rest.closed;
      rest.total_ns = analysis::add_capped(rest.total_ns, spans_[i].duration_ns());
      if (spans_[i].dispatched()) ++rest.dispatched;
      if (spans_[i].gpu_ns == model::kNone) continue;
      ++rest.on_device;
      rest.device_ns = analysis::add_capped(rest.device_ns, spans_[i].gpu_ns);
    }
    for (auto& [name, rest] : rests) rest.seen = 0;
    return rests;
  }

  void siblings(Children list, std::size_t depth) {
    RestByName rests = count_rest(list);
    for (const std::uint32_t i : list) {
      Rest& rest = rests[spans_[i].name];
      if (!beyond_limit(rest)) {
        line(i, depth);
      } else if (rest.seen == options_.sibling_limit + 1) {
        rest_line(spans_[i].name, rest, depth);
      }
    }
  }

  void line(std::uint32_t i, std::size_t depth) {
    constexpr std::size_t kMaxMarks = 64, kDeepest = 128;
    out_.append(2 * depth, ' ');
    const auto marks = marks_.of(spans_[i].id);
    model::append_line(out_, spans_[i], marks.first(std::min(marks.size(), kMaxMarks)));
    name_child(spans_[i]);
    // How it was cut short, if it was.
    if (const std::string how = model::ending_of(spans_[i]); !how.empty())
      out_ += fmt::format(" [{}]", how);
    if (marks.size() > kMaxMarks) out_ += fmt::format(" ({} more marks)", marks.size() - kMaxMarks);
    if (options_.attrs && !spans_[i].attrs.empty()) {
      out_ += ' ';
      model::append_attrs(out_, spans_[i].attrs);
    }
    out_ += '\n';
    const Children below = tree_.children_of(i);
    if (depth < kDeepest) {
      siblings(below, depth + 1);
    } else if (!below.empty()) {
      out_.append(2 * (depth + 1), ' ');
      out_ += "... deeper levels are left out\n";
    }
  }

  // Names a child process: several processes of a run may have the same rank.
  void name_child(const model::Span& span) {
    if (!span.is_session()) return;
    const std::string process = span.attr(model::kProcessAttr).text();
    if (process.empty()) return;
    out_ += " (";
    model::append_clean(out_, process);
    out_ += fmt::format(", pid {})", span.pid);
  }

  void rest_line(std::string_view name, const Rest& rest, std::size_t depth) {
    out_.append(2 * depth, ' ');
    out_ += fmt::format("... {} more {} - total ", rest.left_out, name);
    model::append_duration(out_, rest.total_ns);
    out_ += ", mean ";
    model::append_duration(
        out_, rest.closed == 0 ? 0 : rest.total_ns / static_cast<std::int64_t>(rest.closed));
    if (rest.dispatched != 0)
      model::append_dispatch(out_, rest.on_device == rest.closed ? rest.device_ns : model::kNone);
    out_ += '\n';
  }

  std::span<const model::Span> spans_;
  model::Tree tree_;
  model::MarkIndex marks_;
  TreeOptions options_;
  std::string out_;
};

}  // namespace

std::string tree_text(std::span<const model::Span> spans, std::span<const model::Mark> marks,
                      const TreeOptions& options) {
  return spans.empty() ? "(no spans)\n" : TreeText(spans, marks, options).draw();
}

std::string many_spans_line(std::size_t spans, bool all_shown) {
  constexpr std::size_t kMany = 1'000'000;
  return all_shown && spans > kMany
             ? fmt::format("{} spans: --summary is faster and shows more", spans)
             : "";
}

}  // namespace sonde::report
