// What the figures of a summary leave out, in sentences below its table.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "engine/analysis/summary.h"

namespace sonde::report {

template <typename Test>
bool any_node(const std::vector<analysis::SummaryNode>& nodes, Test test) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const analysis::SummaryNode& node) {
    return test(node) || any_node(node.children, test);
  });
}

template <typename Test>
bool any_node(const analysis::Summary& summary, Test test) {
  return std::any_of(summary.ranks.begin(), summary.ranks.end(),
                     [&](const analysis::RankSummary& rank) { return any_node(rank.roots, test); });
}

std::string summary_notes(const analysis::Summary& summary);

}  // namespace sonde::report
