#include "engine/report/summary.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/analysis/summary.h"
#include "engine/line/line.h"
#include "engine/model/trace.h"
#include "engine/report/summary_notes.h"
#include "engine/report/table.h"

namespace sonde::report {

namespace {

using analysis::Summary;
using analysis::SummaryNode;

std::string duration(std::int64_t ns) {
  if (ns == model::kNone) return "-";
  if (ns > 0 && ns < 1000) return fmt::format("{}ns", ns);
  std::string out;
  line::append_duration(out, ns);
  return out;
}

std::string percent(double share) {
  return std::isnan(share) ? "-" : fmt::format("{:.1f}%", 100 * share);
}

// A figure of the spans that have ended; a dash where none has.
std::string of_closed(const SummaryNode& node, std::int64_t ns) {
  return duration(node.count == 0 ? model::kNone : ns);
}

// 1 for 3.20s
std::string open_so_far(const SummaryNode& node) {
  if (node.open == 0) return {};
  const std::string count = std::to_string(node.open);
  return node.open_ns == 0 ? count : fmt::format("{} for {}", count, duration(node.open_ns));
}

struct Column {
  std::string_view title;
  std::string (*cell)(const SummaryNode&);
};

constexpr std::array kColumns = {
    Column{"count", [](const SummaryNode& n) { return std::to_string(n.count); }},
    Column{"total", [](const SummaryNode& n) { return duration(n.total_ns); }},
    Column{"of parent", [](const SummaryNode& n) { return percent(n.share_of_parent); }},
    Column{"self", [](const SummaryNode& n) { return percent(n.self_share); }},
    Column{"mean", [](const SummaryNode& n) { return of_closed(n, n.mean_ns); }},
    Column{"~p50", [](const SummaryNode& n) { return of_closed(n, n.p50_ns); }},
    Column{"~p95", [](const SummaryNode& n) { return of_closed(n, n.p95_ns); }},
    Column{"min", [](const SummaryNode& n) { return of_closed(n, n.min_ns); }},
    Column{"max", [](const SummaryNode& n) { return of_closed(n, n.max_ns); }},
};
constexpr Column kGpu = {"gpu", [](const SummaryNode& n) { return duration(n.gpu_ns); }};
constexpr Column kOpen = {"open", open_so_far};

void append_html(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
}

using Row = std::vector<std::string>;

// The cells of the whole table, titles first. A summary is small enough to hold them.
class Rows {
 public:
  explicit Rows(std::vector<Column> columns) : columns_(std::move(columns)) {
    Row& titles = rows_.emplace_back(Row{"name"});
    for (const Column& column : columns_) titles.emplace_back(column.title);
  }
  void add_heading(std::string text) { rows_.push_back({std::move(text)}); }
  void add_nodes(const std::vector<SummaryNode>& nodes, std::size_t depth) {
    for (const SummaryNode& node : nodes) {
      Row cells = {std::string(2 * depth, ' ') + node.name};
      for (const Column& column : columns_) cells.push_back(column.cell(node));
      rows_.push_back(std::move(cells));
      add_nodes(node.children, depth + 1);
    }
  }
  std::string draw() const {
    std::vector<Align> columns(columns_.size() + 1, Align::kRight);
    columns.front() = Align::kLeft;
    Table table(std::move(columns));
    for (const Row& row : rows_) table.fit(row);
    std::string out;
    for (const Row& row : rows_) table.append_row(out, row);
    return out;
  }
  std::string draw_html() const {
    std::string out = "<table>\n";
    for (const Row& row : rows_) {
      const std::string_view cell = &row == &rows_.front() ? "th" : "td";
      out += "<tr>";
      for (std::size_t i = 0; i < row.size(); ++i) {
        out += fmt::format("<{} style=\"text-align:{};white-space:pre\">", cell,
                           i == 0 ? "left" : "right");
        append_html(out, row[i]);
        out += fmt::format("</{}>", cell);
      }
      out += "</tr>\n";
    }
    return out + "</table>\n";
  }

 private:
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

Rows rows_of(const Summary& summary) {
  std::vector<Column> columns(kColumns.begin(), kColumns.end());
  if (any_node(summary, [](const SummaryNode& n) { return n.gpu_ns != model::kNone; }))
    columns.push_back(kGpu);
  if (any_node(summary, [](const SummaryNode& n) { return n.open != 0; })) columns.push_back(kOpen);
  Rows rows(std::move(columns));
  const bool several = summary.ranks.size() > 1;
  for (const analysis::RankSummary& rank : summary.ranks) {
    if (several) rows.add_heading(fmt::format("rank {}", rank.rank));
    rows.add_nodes(rank.roots, several ? 1 : 0);
  }
  return rows;
}

}  // namespace

std::string summary_text(const Summary& summary) {
  if (summary.ranks.empty()) return "(no spans)\n";
  return rows_of(summary).draw() + summary_notes(summary);
}

std::string summary_html(const Summary& summary) {
  if (summary.ranks.empty()) return "(no spans)\n";
  std::string out = rows_of(summary).draw_html();
  if (const std::string below = summary_notes(summary); !below.empty()) {
    out += "<p>";
    append_html(out, below);
    out += "</p>\n";
  }
  return out;
}

}  // namespace sonde::report
