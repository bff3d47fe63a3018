// Text in aligned columns, two blanks apart.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sonde::report {

enum class Align { kLeft, kRight };

// Holds only the widths: a row is made once to be fitted and once to be written, because a million
// rows of cells would not fit into memory. Fit all rows before the first is written. The first row
// may be one of titles.
class Table {
 public:
  explicit Table(std::vector<Align> columns)
      : columns_(std::move(columns)), widths_(columns_.size()) {}

  // A row may have fewer cells than there are columns.
  void fit(std::span<const std::string> cells);
  // `behind`: text after the last cell that does not widen any column.
  void append_row(std::string& out, std::span<const std::string> cells,
                  std::string_view behind = {}) const;

 private:
  std::vector<Align> columns_;
  std::vector<std::size_t> widths_;
};

}  // namespace sonde::report
