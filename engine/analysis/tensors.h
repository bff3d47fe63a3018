// The statistics of tensors over the epochs of runs: which record is of which epoch, in what order
// they are looked at, and the newest of each tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/base/id.h"
#include "engine/model/runs.h"
#include "engine/model/trace.h"

namespace sonde::analysis {

// A name of spans: only those have snapshots.
inline constexpr std::string_view kEpochName = "epoch";

struct Epoch {
  std::int64_t index = model::kNone;
  std::int64_t rank = model::kNone;
  std::size_t run = 0;      // 0: not known
  std::size_t order = 0;    // among those of its process in its run: an index may repeat
  std::size_t records = 0;  // that were added so far
  std::int64_t pid = model::kNone;
};

// Epochs by the id of their span.
class Epochs {
 public:
  // Those of the spans. Their process must be known to the runs, which are finished.
  Epochs(std::span<const model::Span> spans, const model::Runs& runs);

  Epoch* find(const base::Id& id);  // null if it is not there
  // One of which nothing is known: its span was evicted, or is not in the file that is read.
  Epoch& unknown(const base::Id& id);

 private:
  std::unordered_map<base::Id, Epoch, base::IdHash> by_id_;
  std::size_t unknown_ = 0;
};

struct TensorLine {
  const Epoch* epoch = nullptr;
  std::size_t position = 0;  // in the model, as far as the order of the records tells
  model::TensorStats tensor;
};

// Keeps about 200 bytes of a record, since names and shapes repeat.
class TensorTable {
 public:
  void add(Epoch& epoch, const model::TensorStats& tensor);

  // By run, epoch, place in the model, rank, process.
  void sort();
  // Leaves of each tensor on each rank its newest epoch, of all processes that are of this rank in
  // the newest run, in the order of the model. How many lines went.
  std::size_t keep_newest();

  const std::vector<TensorLine>& lines() const noexcept { return lines_; }

 private:
  std::string_view keep(std::string_view text);

  std::vector<TensorLine> lines_;
  std::unordered_set<std::string> texts_;
};

}  // namespace sonde::analysis
