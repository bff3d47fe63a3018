// Statistics of tensors as a table, as CSV and as JSON.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "engine/analysis/tensors.h"
#include "engine/model/epochs.h"

namespace sonde::report {

// One line each, without columns that would be empty. `left_out`: how many lines of older epochs
// are not among them. "(no snapshots)" for none.
std::string tensors_text(std::span<const analysis::TensorLine> lines, std::size_t left_out = 0);

// Always the same columns, all digits; what is not known is empty.
std::string tensors_csv_header();
void append_tensor_csv(std::string& out, const analysis::TensorLine& line);

// The record as it is in the spool, with epoch, run and rank in front.
void append_tensor_json(std::string& out, const model::Epoch& epoch, std::string_view record);

// Writes records as one JSON array, a record per line. One record is a kilobyte, and there may be
// millions, so the text is handed out in pieces.
class TensorJsonArray {
 public:
  void add(const model::Epoch& epoch, std::string_view record);
  // Returns the text since the last call, for the caller to print; "" until a piece is full.
  std::string take_full_piece();
  // Ends the array and returns the rest of its text.
  std::string finish();
  bool empty() const noexcept { return empty_; }

 private:
  std::string piece_ = "[";
  bool empty_ = true;
};

}  // namespace sonde::report
