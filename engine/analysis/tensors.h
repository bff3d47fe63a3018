// The statistics of tensors over the epochs of runs: their order, and the newest of each tensor.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/model/epochs.h"
#include "engine/model/trace.h"

namespace sonde::analysis {

struct TensorLine {
  const model::Epoch* epoch = nullptr;
  std::size_t position = 0;  // in the model, which is the order of the records
  model::TensorStats tensor;
};

// Keeps about 200 bytes of a record, since names and shapes repeat.
class TensorTable {
 public:
  TensorTable() = default;
  TensorTable(TensorTable&&) = default;  // the lines point at text that moves along
  TensorTable& operator=(TensorTable&&) = default;

  void add(model::Epoch& epoch, const model::TensorStats& tensor);

  // By run, epoch, place in the model, rank, process.
  void sort();
  // For each tensor and rank, keeps only the newest run and, of each process in it, the newest
  // epoch; sorts by the order of the model. Returns how many lines were removed.
  std::size_t keep_newest();
  const std::vector<TensorLine>& lines() const noexcept { return lines_; }

 private:
  std::string_view keep(std::string_view text);

  std::vector<TensorLine> lines_;
  std::unordered_set<std::string> texts_;
};

}  // namespace sonde::analysis
