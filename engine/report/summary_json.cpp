#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/json_writer.h"
#include "engine/report/json_values.h"
#include "engine/report/summary.h"

namespace sonde::report {

using analysis::Summary;
using analysis::SummaryNode;

namespace {

void write_nodes(base::JsonWriter& out, const std::vector<SummaryNode>& nodes) {
  out.raw('[');
  for (const SummaryNode& node : nodes) {
    out.raw(&node == &nodes.front() ? "{\"name\":" : ",{\"name\":");
    out.string(node.name);
    const auto field = [&](std::string_view name, std::int64_t value) {
      out.raw(fmt::format(",\"{}\":", name));
      write_optional(out, value);
    };
    field("count", static_cast<std::int64_t>(node.count));
    field("open", static_cast<std::int64_t>(node.open));
    field("open_ns", node.open_ns);
    field("skipped", static_cast<std::int64_t>(node.skipped));
    field("total_ns", node.total_ns);
    field("self_ns", node.self_ns);
    field("mean_ns", node.mean_ns);
    field("p50_ns", node.p50_ns);
    field("p95_ns", node.p95_ns);
    field("min_ns", node.min_ns);
    field("max_ns", node.max_ns);
    field("gpu_ns", node.gpu_ns);
    if (node.dispatched) out.raw(",\"timing\":\"dispatch\"");
    out.raw(",\"share_of_parent\":");
    if (std::isnan(node.share_of_parent)) {
      out.raw("null");
    } else {
      out.number(node.share_of_parent);
    }
    out.raw(",\"children\":");
    write_nodes(out, node.children);
    out.raw('}');
  }
  out.raw(']');
}

}  // namespace

std::string summary_json(const Summary& summary) {
  base::JsonWriter out;
  out.raw(fmt::format("{{\"spans\":{},\"left_out\":{},\"orphans\":{},\"names_folded\":{}",
                      summary.spans, summary.left_out, summary.orphans, summary.names_folded));
  for (const std::string& hint : summary.hints) {
    out.raw(&hint == &summary.hints.front() ? ",\"hints\":[" : ",");
    out.string(hint);
  }
  out.raw(summary.hints.empty() ? ",\"ranks\":[" : "],\"ranks\":[");
  for (const analysis::RankSummary& rank : summary.ranks) {
    out.raw(fmt::format("{}{{\"rank\":{},\"roots\":", &rank == &summary.ranks.front() ? "" : ",",
                        rank.rank));
    write_nodes(out, rank.roots);
    out.raw('}');
  }
  out.raw("]}\n");
  return out.str();
}

}  // namespace sonde::report
