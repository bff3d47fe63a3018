#include "engine/report/tensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/analysis/tensors.h"
#include "engine/model/epochs.h"
#include "engine/model/line.h"
#include "engine/model/trace.h"
#include "engine/report/table.h"
#include "engine/report/tensor_fields.h"

namespace sonde::report {

namespace {

using analysis::TensorLine;

std::string clean(std::string_view text) {
  std::string out;
  model::append_clean(out, text);
  return out;
}

template <double model::TensorStats::* Field>
std::string rounded(const TensorLine& line) {
  return line.tensor.known ? fmt::format("{:.4g}", line.tensor.*Field) : "";
}

template <std::int64_t model::TensorStats::* Field>
std::string counted(const TensorLine& line) {
  return integer(line.tensor.*Field);
}

template <std::int64_t model::TensorStats::* Field>
bool any_counted(std::span<const TensorLine> lines) {
  return std::any_of(lines.begin(), lines.end(),
                     [](const TensorLine& line) { return line.tensor.*Field > 0; });
}

template <typename Of>
bool differ(std::span<const TensorLine> lines, Of of) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const TensorLine& line) { return of(line) != of(lines.front()); });
}

bool always(std::span<const TensorLine>) { return true; }

bool several_processes_of_a_rank(std::span<const TensorLine> lines) {
  std::map<std::pair<std::size_t, std::int64_t>, std::int64_t> pids;
  return std::any_of(lines.begin(), lines.end(), [&](const TensorLine& line) {
    const model::Epoch& epoch = *line.epoch;
    return pids.try_emplace({epoch.run, epoch.rank}, epoch.pid).first->second != epoch.pid;
  });
}

struct Column {
  std::string_view title;
  Align align;                                  // text left, numbers right
  std::string (*cell)(const TensorLine&);       // empty: a dash
  bool (*wanted)(std::span<const TensorLine>);  // whether there is anything to show
};

using Stats = model::TensorStats;

constexpr Column kColumns[] = {
    {"run", Align::kRight, run_of,
     [](auto lines) { return differ(lines, [](const auto& line) { return line.epoch->run; }); }},
    {"epoch", Align::kRight, [](const TensorLine& line) { return integer(line.epoch->index); },
     always},
    {"rank", Align::kRight, [](const TensorLine& line) { return integer(line.epoch->rank); },
     [](auto lines) { return differ(lines, [](const auto& line) { return line.epoch->rank; }); }},
    {"pid", Align::kRight, [](const TensorLine& line) { return integer(line.epoch->pid); },
     several_processes_of_a_rank},
    {"tensor", Align::kLeft, [](const TensorLine& line) { return clean(line.tensor.name); },
     always},
    {"shape", Align::kLeft, shape_of, always},
    {"dtype", Align::kLeft, [](const TensorLine& line) { return clean(line.tensor.dtype); },
     always},
    {"mean", Align::kRight, rounded<&Stats::mean>, always},
    {"std", Align::kRight, rounded<&Stats::std>, always},
    {"min", Align::kRight, rounded<&Stats::min>, always},
    {"max", Align::kRight, rounded<&Stats::max>, always},
    {"norm", Align::kRight, rounded<&Stats::norm>, always},
    {"nan", Align::kRight, counted<&Stats::nan_count>, any_counted<&Stats::nan_count>},
    {"inf", Align::kRight, counted<&Stats::inf_count>, any_counted<&Stats::inf_count>},
    {"zero", Align::kRight, counted<&Stats::zero_count>, any_counted<&Stats::zero_count>},
};

std::string reason(const TensorLine& line) {
  if (line.tensor.known) return {};
  return line.tensor.unavailable.empty() ? "no statistics for this type"
                                         : clean(line.tensor.unavailable);
}

std::string draw_table(std::span<const TensorLine> lines) {
  std::vector<const Column*> columns;
  std::vector<Align> aligns;
  std::vector<std::string> titles;
  for (const Column& column : kColumns) {
    if (!column.wanted(lines)) continue;
    columns.push_back(&column);
    aligns.push_back(column.align);
    titles.emplace_back(column.title);
  }
  std::vector<std::string> cells(columns.size());
  const auto fill = [&](const TensorLine& line) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      cells[i] = columns[i]->cell(line);
      if (cells[i].empty()) cells[i] = "-";
    }
  };
  Table table(std::move(aligns));
  table.fit(titles);
  for (const TensorLine& line : lines) {
    fill(line);
    table.fit(cells);
  }
  std::string out;
  table.append_row(out, titles);
  for (const TensorLine& line : lines) {
    fill(line);
    table.append_row(out, cells, reason(line));
  }
  return out;
}

}  // namespace

std::string tensors_text(std::span<const TensorLine> lines, std::size_t left_out) {
  if (lines.empty()) return "(no snapshots)\n";
  std::string out = draw_table(lines);
  if (left_out != 0) {
    out += fmt::format(
        "the newest epoch of each tensor, {} of {} lines; --epoch N shows another, --tensor GLOB "
        "all epochs of some tensors, --all everything\n",
        lines.size(), lines.size() + left_out);
  }
  return out;
}

}  // namespace sonde::report
