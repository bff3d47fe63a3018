#include "engine/report/summary_notes.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "engine/analysis/summary.h"
#include "engine/base/level_names.h"
#include "engine/line/line.h"
#include "engine/report/hint.h"

namespace sonde::report {

using analysis::Summary;
using analysis::SummaryNode;

namespace {

void collect_dispatched(const std::vector<SummaryNode>& nodes, std::set<std::string>& names,
                        bool& known) {
  for (const SummaryNode& node : nodes) {
    if (node.dispatched) {
      names.insert(node.name);
      known = known && !std::isnan(node.share_of_parent);
    }
    collect_dispatched(node.children, names, known);
  }
}

std::string dispatch_note(const Summary& summary) {
  std::set<std::string> names;
  bool known = true;
  for (const analysis::RankSummary& rank : summary.ranks)
    collect_dispatched(rank.roots, names, known);
  if (names.empty()) return {};
  std::string list;
  for (const std::string& name : names) {
    if (!list.empty()) list += ", ";
    line::append_clean(list, name);
  }
  return fmt::format(
      "{}: the program hands work to a device there and does not wait for it, so these times are "
      "the host's. "
      "{}\n",
      list,
      known ? "Their shares are of the device's time (gpu)."
            : "Where the device's time (gpu) is not known, no share is shown; to measure it, wait "
              "for the result inside the span, for example with jax.block_until_ready().");
}

// Counts the steps at any place of the tree, and those of them that were skipped.
void count_steps(const std::vector<SummaryNode>& nodes, std::string_view name, std::uint64_t& all,
                 std::uint64_t& skipped) {
  for (const SummaryNode& node : nodes) {
    if (node.name == name) {
      all += node.count + node.open;
      skipped += node.skipped;
    }
    count_steps(node.children, name, all, skipped);
  }
}

std::string skipped_note(const Summary& summary) {
  std::string out;
  for (const std::string_view name : {base::kStep, base::kBatch}) {
    std::uint64_t all = 0, skipped = 0;
    for (const analysis::RankSummary& rank : summary.ranks)
      count_steps(rank.roots, name, all, skipped);
    if (skipped == 0) continue;
    out += fmt::format("The scaler skipped {} of {} {}{}: their gradients were not finite.\n",
                       skipped, all, name,
                       all == 1               ? ""
                       : name == base::kBatch ? "es"
                                              : "s");
  }
  return out;
}

std::string open_note(const Summary& summary) {
  if (!any_node(summary, [](const SummaryNode& n) { return n.open_ns != 0; })) return {};
  return "Totals and shares include open spans with their time so far; the other figures do "
         "not.\n";
}

}  // namespace

std::string summary_notes(const Summary& summary) {
  std::string out = dispatch_note(summary) + skipped_note(summary) + open_note(summary);
  for (const std::string& hint : summary.hints) append_hint(out, hint);
  if (summary.left_out != 0) {
    out += fmt::format(
        "{} older spans are not held in memory any more and not counted here; sonde trace "
        "--summary adds up all that were written.\n",
        summary.left_out);
  }
  if (summary.orphans != 0) {
    out += fmt::format("{} spans are under (orphans): their parents were recorded too late.\n",
                       summary.orphans);
  }
  if (summary.names_folded) {
    out +=
        "There are more different names than a table can hold: the rest is added up as (other "
        "names). Put what "
        "varies into the index or an attribute instead of the name.\n";
  }
  return out;
}

}  // namespace sonde::report
