#include "engine/report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <vector>

#include "engine/base/json_writer.h"
#include "engine/model/line.h"
#include "engine/report/hint.h"
#include "engine/report/json_values.h"

namespace sonde::report {

namespace {

using analysis::Summary;
using analysis::SummaryNode;

std::string duration(std::int64_t ns) {
  if (ns == model::kNone) return "-";
  if (ns > 0 && ns < 1000) return fmt::format("{}ns", ns);
  std::string out;
  model::append_duration(out, ns);
  return out;
}

std::string percent(double share) {
  return std::isnan(share) ? "-" : fmt::format("{:.1f}%", 100 * share);
}

// Of what has ended; a dash where nothing has.
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

template <typename Test>
bool any_node(const std::vector<SummaryNode>& nodes, Test test) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const SummaryNode& node) {
    return test(node) || any_node(node.children, test);
  });
}

template <typename Test>
bool any_node(const Summary& summary, Test test) {
  return std::any_of(summary.ranks.begin(), summary.ranks.end(),
                     [&](const analysis::RankSummary& rank) { return any_node(rank.roots, test); });
}

// Characters, as far as alignment goes: bytes that begin a UTF-8 sequence.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

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

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {
    std::vector<std::string> titles = {"name"};
    for (const Column& column : columns_) titles.emplace_back(column.title);
    add_row(std::move(titles));
  }
  void add_heading(std::string text) { add_row({std::move(text)}); }
  void add_nodes(const std::vector<SummaryNode>& nodes, std::size_t depth) {
    for (const SummaryNode& node : nodes) {
      std::vector<std::string> cells = {std::string(2 * depth, ' ') + node.name};
      for (const Column& column : columns_) cells.push_back(column.cell(node));
      add_row(std::move(cells));
      add_nodes(node.children, depth + 1);
    }
  }
  std::string draw_html() const {
    std::string out = "<table>\n";
    for (const auto& row : rows_) {
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
  std::string draw() const {
    std::string out;
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) append_cell(line, row[i], i);
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + '\n';
    }
    return out;
  }

 private:
  void add_row(std::vector<std::string> cells) {
    widths_.resize(std::max(widths_.size(), cells.size()), 0);
    for (std::size_t i = 0; i < cells.size(); ++i)
      widths_[i] = std::max(widths_[i], width_of(cells[i]));
    rows_.push_back(std::move(cells));
  }
  void append_cell(std::string& line, const std::string& cell, std::size_t i) const {
    const std::string fill(widths_[i] - width_of(cell), ' ');
    line += i == 0 ? cell + fill : "  " + fill + cell;
  }

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

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
    model::append_clean(list, name);
  }
  return fmt::format(
      "{}: work is handed to a device and not waited for there, so these times are the host's. "
      "{}\n",
      list,
      known ? "Their shares are of the device's time (gpu)."
            : "Where the device's time (gpu) is not known there is no share: wait for the result "
              "inside the span, as with jax.block_until_ready(), to measure it.");
}

// Steps on all ranks, wherever they stand: how many, and how many of them were skipped.
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
  for (const std::string_view name : {"step", "batch"}) {
    std::uint64_t all = 0, skipped = 0;
    for (const analysis::RankSummary& rank : summary.ranks)
      count_steps(rank.roots, name, all, skipped);
    if (skipped == 0) continue;
    out += fmt::format("The scaler skipped {} of {} {}{}: their gradients were not finite.\n",
                       skipped, all, name,
                       all == 1          ? ""
                       : name == "batch" ? "es"
                                         : "s");
  }
  return out;
}

std::string open_note(const Summary& summary) {
  if (!any_node(summary, [](const SummaryNode& n) { return n.open_ns != 0; })) return {};
  return "Totals and shares count what is open with the time so far, the other figures do not.\n";
}

std::string notes(const Summary& summary) {
  std::string out = dispatch_note(summary) + skipped_note(summary) + open_note(summary);
  for (const std::string& hint : summary.hints) append_hint(out, hint);
  if (summary.left_out != 0) {
    out += fmt::format(
        "{} older spans are not held in memory any more and not counted here; sonde trace "
        "--summary adds up all that were written.\n",
        summary.left_out);
  }
  if (summary.orphans != 0) {
    out += fmt::format(
        "The parents of {} spans did not come in time to be waited for: see (orphans).\n",
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

Table make_table(const Summary& summary) {
  std::vector<Column> columns(kColumns.begin(), kColumns.end());
  if (any_node(summary, [](const SummaryNode& n) { return n.gpu_ns != model::kNone; }))
    columns.push_back(kGpu);
  if (any_node(summary, [](const SummaryNode& n) { return n.open != 0; })) columns.push_back(kOpen);
  Table table(std::move(columns));
  const bool several = summary.ranks.size() > 1;
  for (const analysis::RankSummary& rank : summary.ranks) {
    if (several) table.add_heading(fmt::format("rank {}", rank.rank));
    table.add_nodes(rank.roots, several ? 1 : 0);
  }
  return table;
}

}  // namespace

std::string summary_text(const Summary& summary) {
  if (summary.ranks.empty()) return "(no spans)\n";
  return make_table(summary).draw() + notes(summary);
}

std::string summary_html(const Summary& summary) {
  if (summary.ranks.empty()) return "(no spans)\n";
  std::string out = make_table(summary).draw_html();
  if (const std::string below = notes(summary); !below.empty()) {
    out += "<p>";
    append_html(out, below);
    out += "</p>\n";
  }
  return out;
}

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
