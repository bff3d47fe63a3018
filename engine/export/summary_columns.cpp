#include "engine/export/summary_columns.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/analysis/summary.h"
#include "engine/analysis/summary_fields.h"
#include "engine/base/attr_names.h"
#include "engine/export/columns.h"
#include "engine/model/trace.h"
namespace sonde::exporting {

namespace {

using analysis::kSummaryFields;
using analysis::SummaryNode;

struct SummaryColumns {
  Column rank, path, name, depth, timing, share;
  std::array<Column, kSummaryFields.size()> numbers;

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
      for (std::size_t i = 0; i < kSummaryFields.size(); ++i)
        numbers[i].longs.push_back(kSummaryFields[i].of(node));
      timing.text += node.dispatched ? base::kDispatch : std::string_view();
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
  for (std::size_t i = 0; i < kSummaryFields.size(); ++i)
    table.fields.push_back({kSummaryFields[i].name, Type::kLong, true, &all->numbers[i]});
  table.fields.push_back({analysis::kTimingField, Type::kText, true, &all->timing});
  table.fields.push_back({analysis::kShareField, Type::kReal, true, &all->share});
  table.owner = all;
  return table;
}

}  // namespace sonde::exporting
