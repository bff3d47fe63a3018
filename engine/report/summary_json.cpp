#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/analysis/summary.h"
#include "engine/analysis/summary_fields.h"
#include "engine/base/attr_names.h"
#include "engine/base/json_writer.h"
#include "engine/model/json_values.h"
#include "engine/model/trace.h"
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
    for (const analysis::SummaryField& field : analysis::kSummaryFields) {
      out.raw(fmt::format(",\"{}\":", field.name));
      model::write_optional(out, field.of(node));
    }
    if (node.dispatched)
      out.raw(fmt::format(",\"{}\":\"{}\"", analysis::kTimingField, base::kDispatch));
    out.raw(fmt::format(",\"{}\":", analysis::kShareField));
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
