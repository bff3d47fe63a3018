// Statistics of tensors as a table, as CSV and as JSON.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/analysis/tensors.h"
#include "engine/model/epochs.h"

namespace sonde::report {

// One line each, without columns that would be empty. `left_out`: how many lines of older epochs
// are not among them. "(no snapshots)" for none.
std::string tensors_text(std::span<const analysis::TensorLine> lines, std::size_t left_out = 0);
// The lines of a sorted table. Unless `in_full`, those of the newest epoch of each tensor where
// there are more than a person wants to read.
std::string table_text(analysis::TensorTable table, bool in_full);

// Always the same columns, all digits; what is not known is empty.
std::string tensors_csv_header();
void append_tensor_csv(std::string& out, const analysis::TensorLine& line);

// The record as it is in the spool, with epoch, run and rank in front.
void append_tensor_json(std::string& out, const model::Epoch& epoch, std::string_view record);

// The text of many records. There may be millions, so it is handed out in pieces.
class Pieces {
 public:
  // Returns the text since the last call, for the caller to print; "" until a piece is full.
  std::string take_full_piece();

 protected:
  explicit Pieces(std::string begin) : piece_(std::move(begin)) {}
  std::string piece_;
};

// Writes records as one JSON array, a record per line.
class TensorJsonArray : public Pieces {
 public:
  TensorJsonArray() : Pieces("[") {}
  void add(const model::Epoch& epoch, std::string_view record);
  // Ends the array and returns the rest of its text.
  std::string finish();
  bool empty() const noexcept { return empty_; }

 private:
  bool empty_ = true;
};

// Writes lines as CSV, after a line with the names of the columns.
class TensorCsv : public Pieces {
 public:
  TensorCsv() : Pieces(tensors_csv_header()) {}
  void add(const analysis::TensorLine& line) { append_tensor_csv(piece_, line); }
  // The rest of the text.
  std::string finish() { return std::exchange(piece_, {}); }
};

}  // namespace sonde::report
