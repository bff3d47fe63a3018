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
#include "engine/line/line.h"
#include "engine/model/epochs.h"
#include "engine/model/tensor_fields.h"
#include "engine/report/table.h"
#include "engine/report/tensor_fields.h"

namespace sonde::report {

namespace {

using analysis::TensorLine;

std::string clean(std::string_view text) {
  std::string out;
  line::append_clean(out, text);
  return out;
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

template <std::size_t I>
constexpr Column number_column() {
  const auto cell = [](const TensorLine& line) {
    return line.tensor.known ? fmt::format("{:.4g}", line.tensor.*model::kTensorNumbers[I].member)
                             : std::string();
  };
  return {model::kTensorNumbers[I].key.name(), Align::kRight, cell, always};
}

// Shown where a tensor has some. The title goes without "_count".
template <std::size_t I>
constexpr Column count_column() {
  constexpr std::string_view kName = model::kTensorCounts[I].key.name();
  const auto cell = [](const TensorLine& line) {
    return integer(line.tensor.*model::kTensorCounts[I].member);
  };
  const auto wanted = [](std::span<const TensorLine> lines) {
    return std::any_of(lines.begin(), lines.end(), [](const TensorLine& line) {
      return line.tensor.*model::kTensorCounts[I].member > 0;
    });
  };
  return {kName.substr(0, kName.find('_')), Align::kRight, cell, wanted};
}
static_assert(model::kTensorNumbers.size() == 5 && model::kTensorCounts.size() == 4);

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
    number_column<0>(),
    number_column<1>(),
    number_column<2>(),
    number_column<3>(),
    number_column<4>(),
    // Not the first, the number of values: the shape says that.
    count_column<1>(),
    count_column<2>(),
    count_column<3>(),
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
        "only the newest epoch of each tensor is shown, {} of {} lines; --epoch N shows one epoch, "
        "--tensor GLOB all epochs of matching tensors, --all everything\n",
        lines.size(), lines.size() + left_out);
  }
  return out;
}

std::string table_text(analysis::TensorTable table, bool in_full) {
  constexpr std::size_t kReadable = 40;
  const bool cut = !in_full && table.lines().size() > kReadable;
  const std::size_t left_out = cut ? table.keep_newest() : 0;
  return tensors_text(table.lines(), left_out);
}

}  // namespace sonde::report
