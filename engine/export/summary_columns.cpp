#include "engine/export/summary_columns.h"

#include <array>
#include <cmath>

namespace sonde::exporting {

namespace {

using analysis::SummaryNode;

struct Number {
  const char* name;
  std::int64_t (*of)(const SummaryNode&);
};

constexpr std::array kNumbers = {
    Number{"count", [](const SummaryNode& n) { return static_cast<std::int64_t>(n.count); }},
    Number{"open", [](const SummaryNode& n) { return static_cast<std::int64_t>(n.open); }},
    Number{"open_ns", [](const SummaryNode& n) { return n.open_ns; }},
    Number{"skipped", [](const SummaryNode& n) { return static_cast<std::int64_t>(n.skipped); }},
    Number{"total_ns", [](const SummaryNode& n) { return n.total_ns; }},
    Number{"self_ns", [](const SummaryNode& n) { return n.self_ns; }},
    Number{"mean_ns", [](const SummaryNode& n) { return n.mean_ns; }},
    Number{"p50_ns", [](const SummaryNode& n) { return n.p50_ns; }},
    Number{"p95_ns", [](const SummaryNode& n) { return n.p95_ns; }},
    Number{"min_ns", [](const SummaryNode& n) { return n.min_ns; }},
    Number{"max_ns", [](const SummaryNode& n) { return n.max_ns; }},
    Number{"gpu_ns", [](const SummaryNode& n) { return n.gpu_ns; }},
};

struct SummaryColumns {
  Column rank, path, name, depth, timing, share;
  std::array<Column, kNumbers.size()> numbers;

  void add(const std::vector<SummaryNode>& nodes, std::int32_t of_rank, const std::string& above,
           std::int32_t level) {
    for (const SummaryNode& node : nodes) {
      const std::string here = above.empty() ? node.name : above + "/" + node.name;
      rank.shorts.push_back(of_rank);
      depth.shorts.push_back(level);
      append_utf8(path.text, here);
      path.end_text();
      append_utf8(name.text, node.name);
      name.end_text();
      for (std::size_t i = 0; i < kNumbers.size(); ++i)
        numbers[i].longs.push_back(kNumbers[i].of(node));
      timing.text += node.dispatched ? "dispatch" : "";
      timing.end_text();
      share.reals.push_back(node.share_of_parent);
      add(node.children, of_rank, here, level + 1);
    }
  }
};

// What is not known is null.
void set_nulls(SummaryColumns& all, std::size_t rows) {
  for (std::size_t row = 0; row < rows; ++row) {
    for (Column& column : all.numbers) {
      if (column.longs[row] != model::kNone) continue;
      column.longs[row] = 0;
      column.set_null(row, rows);
    }
    if (std::isnan(all.share.reals[row])) all.share.set_null(row, rows);
    if (all.timing.offsets[row] == all.timing.offsets[row + 1]) all.timing.set_null(row, rows);
  }
}

}  // namespace

ColumnTable make_summary_table(const analysis::Summary& summary) {
  const auto all = std::make_shared<SummaryColumns>();
  for (Column* text : {&all->path, &all->name, &all->timing}) text->offsets.push_back(0);
  for (const analysis::RankSummary& rank : summary.ranks) all->add(rank.roots, rank.rank, "", 0);
  ColumnTable table;
  table.rows = all->share.reals.size();
  set_nulls(*all, table.rows);
  table.fields = {{"rank", Type::kShort, false, &all->rank},
                  {"path", Type::kText, false, &all->path},
                  {"name", Type::kText, false, &all->name},
                  {"depth", Type::kShort, false, &all->depth}};
  for (std::size_t i = 0; i < kNumbers.size(); ++i)
    table.fields.push_back({kNumbers[i].name, Type::kLong, true, &all->numbers[i]});
  table.fields.push_back({"timing", Type::kText, true, &all->timing});
  table.fields.push_back({"share_of_parent", Type::kReal, true, &all->share});
  table.owner = all;
  return table;
}

}  // namespace sonde::exporting
