// The statistics of tensors in a source, each with its epoch.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/analysis/no_snapshots.h"
#include "engine/analysis/tensors.h"
#include "engine/base/id.h"
#include "engine/model/epochs.h"
#include "engine/model/missing.h"
#include "engine/model/runs.h"
#include "engine/model/trace.h"
#include "engine/run/reader.h"
#include "engine/run/selection.h"
#include "engine/run/source.h"

namespace sonde::run {

struct SnapshotQuery {
  Choice choice;       // its name is ignored
  std::string tensor;  // a glob; empty: all
  std::optional<std::int64_t> epoch;
  bool gradients = true;
  bool weights = true;
};

// Why there is no record.
struct NoRecords {
  model::Missing missing;
  std::vector<analysis::NoSnapshots> reasons;  // if nothing was captured at all: of each session
};

// Reads the source twice: a record does not say its epoch's number, and the span that does may be
// in any batch. Only epochs, sessions and names are held meanwhile.
class SnapshotSearch {
 public:
  SnapshotSearch(Source& source, SnapshotQuery query);

  // `record` is the JSON object as it is stored. The statistics and the record are valid until
  // `take` returns, the epoch as long as the search.
  using Take =
      std::function<void(model::Epoch&, const model::TensorStats&, std::string_view record)>;
  // Calls `take` with every record that is wanted, in the order in which they were stored.
  void each(const Take& take);

  // The functions below may be called after each().
  const Skipped& skipped() const noexcept { return skipped_; }
  // If there was no record.
  NoRecords why_none() const;
  // Ends the search.
  model::Epochs take_epochs() noexcept { return std::move(epochs_); }

 private:
  bool find_epochs();
  void keep(model::Span span);
  model::Epoch* epoch_of(const base::Id& id);
  bool wanted(const model::Epoch& epoch, const model::TensorStats& tensor);
  model::Missing missing() const;

  Source& source_;
  SnapshotQuery query_;
  Selection selection_;
  Skipped skipped_;
  model::Epochs epochs_;
  // Of the chosen runs and ranks, with their attributes as their only text.
  std::vector<model::Span> epoch_spans_, sessions_;
  std::deque<std::string> texts_;  // their attributes
  // The names of tensors and the epochs that the wanted runs and ranks have.
  std::set<std::string, std::less<>> names_;
  std::set<std::int64_t> indexes_;
  // The names from which the pattern could choose: of the wanted epoch and kind.
  std::set<std::string_view> choice_;
};

// All records that are wanted.
struct Tensors {
  analysis::TensorTable table;  // sorted
  model::Epochs epochs;         // what the lines of the table point at
  NoRecords none;               // where the table is empty
  Skipped skipped;
};

Tensors read_tensors(Source& source, const SnapshotQuery& query);

}  // namespace sonde::run
