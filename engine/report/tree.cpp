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
#include "engine/base/attr_names.h"
#include "engine/line/line.h"
#include "engine/model/ending.h"
#include "engine/model/mark_index.h"
#include "engine/model/runs.h"
#include "engine/model/trace.h"
#include "engine/model/tree.h"
#include "engine/report/ending.h"
#include "engine/report/hint.h"
#include "engine/report/more_marks.h"
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
      if (std::string hint = spans_[root].attr(base::kHintAttr).text(); !hint.empty())
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
    if (earlier != 0)
      out_ += fmt::format("{:{}}... {} earlier run{}\n", "", 2 * depth, earlier,
                          earlier == 1 ? "" : "s");
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

  // Siblings of one name.
  struct OfName {
    std::size_t seen = 0;
    bool newest_seen = false;
    bool told = false;  // the line about those that are hidden is drawn
    std::size_t shown_failures = 0;
    // Of those that are hidden.
    std::size_t hidden = 0, failed = 0, dispatched = 0, on_device = 0;
    std::int64_t total_ns = 0, device_ns = 0;
  };
  using ByName = std::unordered_map<std::string_view, OfName>;

  // Ended in a way that a reader looks for.
  static bool failed(const model::Span& span) {
    return span.attr(base::kExceptionAttr) ||
           (span.is_session() && model::ending_of(span).unusual());
  }

  // Where a run is, or where it ended.
  static bool is_a_last_place(const model::Span& span) {
    const std::string_view closed_by = span.closed_by();
    return span.open() || closed_by == base::kClosedByDeath || closed_by == "shutdown";
  }

  // Which of the siblings are hidden: of each name those beyond the limit, except where the run is
  // or ended, and except the newest that failed (again up to the limit). `goes_on`: the newest of
  // each name is shown too.
  std::vector<bool> hide(Children list, bool goes_on, ByName& names) const {
    std::vector<bool> hidden(list.size(), false);
    const std::size_t limit = options_.sibling_limit;
    if (limit == 0 || list.size() <= limit) return hidden;
    for (std::size_t k = 0; k < list.size(); ++k)
      hidden[k] = ++names[spans_[list[k]].name].seen > limit;
    for (std::size_t k = list.size(); k-- > 0;) {
      if (!hidden[k]) continue;
      const model::Span& span = spans_[list[k]];
      OfName& name = names[span.name];
      const bool newest = !std::exchange(name.newest_seen, true);
      const bool has_failed = failed(span);
      if (is_a_last_place(span) || (newest && goes_on) ||
          (has_failed && name.shown_failures < limit)) {
        hidden[k] = false;
        if (has_failed) ++name.shown_failures;
      } else {
        add_hidden(name, span, has_failed);
      }
    }
    return hidden;
  }

  static void add_hidden(OfName& name, const model::Span& span, bool has_failed) {
    ++name.hidden;
    if (has_failed) ++name.failed;
    name.total_ns = analysis::add_capped(name.total_ns, span.duration_ns());
    if (span.dispatched()) ++name.dispatched;
    if (span.gpu_ns == model::kNone) return;
    ++name.on_device;
    name.device_ns = analysis::add_capped(name.device_ns, span.gpu_ns);
  }

  // `goes_on`: their parent is where the run is, or where it ended.
  void siblings(Children list, std::size_t depth, bool goes_on = false) {
    ByName names;
    const std::vector<bool> hidden = hide(list, goes_on, names);
    for (std::size_t k = 0; k < list.size(); ++k) {
      const std::string_view name = spans_[list[k]].name;
      if (!hidden[k]) {
        line(list[k], depth);
      } else if (OfName& same = names[name]; !std::exchange(same.told, true)) {
        rest_line(name, same, depth);
      }
    }
  }

  void line(std::uint32_t i, std::size_t depth) {
    constexpr std::size_t kMaxMarks = 64, kDeepest = 128;
    out_.append(2 * depth, ' ');
    const auto marks = marks_.of(spans_[i].id);
    line::append_line(out_, spans_[i], marks.last(std::min(marks.size(), kMaxMarks)));
    name_child(spans_[i]);
    // How it was cut short, if it was.
    if (const std::string how = ending_text(model::ending_of(spans_[i])); !how.empty())
      out_ += fmt::format(" [{}]", how);
    append_more_marks(out_, marks.size() - std::min(marks.size(), kMaxMarks));
    if (options_.attrs && !spans_[i].attrs.empty()) {
      out_ += ' ';
      line::append_attrs(out_, spans_[i].attrs);
    }
    out_ += '\n';
    const Children below = tree_.children_of(i);
    if (depth < kDeepest) {
      siblings(below, depth + 1, is_a_last_place(spans_[i]));
    } else if (!below.empty()) {
      out_.append(2 * (depth + 1), ' ');
      out_ += "... deeper levels are left out\n";
    }
  }

  // Names a child process: several processes of a run may have the same rank.
  void name_child(const model::Span& span) {
    if (!span.is_session()) return;
    const std::string process = span.attr(base::kProcessAttr).text();
    if (process.empty()) return;
    out_ += " (";
    line::append_clean(out_, process);
    out_ += fmt::format(", pid {})", span.pid);
  }

  void rest_line(std::string_view name, const OfName& rest, std::size_t depth) {
    out_.append(2 * depth, ' ');
    out_ += fmt::format("... {} more {} - ", rest.hidden, name);
    total_and_mean(rest.total_ns, rest.hidden);
    if (rest.dispatched != 0) {
      line::append_dispatch(out_, model::kNone);
      if (rest.on_device == rest.hidden) {
        out_ += ", on the device ";
        total_and_mean(rest.device_ns, rest.hidden);
      }
    }
    if (rest.failed != 0) out_ += fmt::format(", {} of them failed", rest.failed);
    out_ += '\n';
  }

  void total_and_mean(std::int64_t total_ns, std::size_t count) {
    out_ += "total ";
    line::append_duration(out_, total_ns);
    out_ += ", mean ";
    line::append_duration(out_, total_ns / static_cast<std::int64_t>(count));
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
