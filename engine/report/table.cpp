#include "engine/report/table.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/utf8.h"

namespace sonde::report {

namespace {

// The number of characters: bytes that begin a UTF-8 sequence.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !base::is_continuation(c); }));
}

}  // namespace

void Table::fit(std::span<const std::string> cells) {
  for (std::size_t i = 0; i < cells.size(); ++i)
    widths_[i] = std::max(widths_[i], width_of(cells[i]));
}

void Table::append_row(std::string& out, std::span<const std::string> cells,
                       std::string_view behind) const {
  const std::size_t begin = out.size();
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i != 0) out += "  ";
    const std::size_t fill = widths_[i] - width_of(cells[i]);
    if (columns_[i] == Align::kRight) out.append(fill, ' ');
    out += cells[i];
    if (columns_[i] == Align::kLeft) out.append(fill, ' ');
  }
  if (!behind.empty()) out.append("  ").append(behind);
  while (out.size() > begin && out.back() == ' ') out.pop_back();
  out += '\n';
}

}  // namespace sonde::report
