#include "engine/run/snapshots.h"

#include <fnmatch.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/analysis/no_snapshots.h"
#include "engine/base/id.h"
#include "engine/model/epochs.h"
#include "engine/model/missing.h"
#include "engine/model/trace.h"
#include "engine/run/reader.h"
#include "engine/run/source.h"

namespace sonde::run {

using model::Missing;

namespace {

constexpr std::string_view kSession = "session";

}  // namespace

SnapshotSearch::SnapshotSearch(Source& source, SnapshotQuery query)
    : source_(source), query_(std::move(query)), selection_(query_.choice) {}

// Copies the text that is needed: the rest is freed with the batch.
void SnapshotSearch::keep(model::Span span) {
  const bool epoch = span.name == model::kEpochName;
  if (!epoch && !span.is_session()) return;
  span.name = epoch ? model::kEpochName : kSession;
  span.attrs = texts_.emplace_back(span.attrs);
  (epoch ? epoch_spans_ : sessions_).push_back(span);
}

bool SnapshotSearch::find_epochs() {
  Reader reader(source_);
  reader.each_batch(Detail::kTimings, Reader::Order::kJournalsFirst, [&](model::Batch& batch) {
    selection_.look(batch.spans);
    for (const model::Span& span : batch.spans) keep(span);
  });
  skipped_ = reader.skipped();
  if (!selection_.settle()) return false;
  selection_.narrow(epoch_spans_);
  selection_.narrow(sessions_);
  epochs_ = model::Epochs(epoch_spans_, selection_.runs());
  return true;
}

// Null for the epoch of another run or rank, and for an unknown one where a run or rank is wanted:
// it could be of any.
model::Epoch* SnapshotSearch::epoch_of(const base::Id& id) {
  if (model::Epoch* found = epochs_.find(id)) return found;
  return selection_.wants_run() || query_.choice.rank ? nullptr : &epochs_.unknown(id);
}

bool SnapshotSearch::wanted(const model::Epoch& epoch, const model::TensorStats& tensor) {
  auto name = names_.find(tensor.name);
  if (name == names_.end()) name = names_.emplace(tensor.name).first;
  if (epoch.index != model::kNone) indexes_.insert(epoch.index);
  if (query_.epoch && epoch.index != *query_.epoch) return false;
  if (!(tensor.gradient() ? query_.gradients : query_.weights)) return false;
  choice_.insert(*name);
  return query_.tensor.empty() || ::fnmatch(query_.tensor.c_str(), name->c_str(), 0) == 0;
}

void SnapshotSearch::each(const Take& take) {
  if (!find_epochs()) return;
  Reader reader(source_);
  reader.each_batch(Detail::kTensors, Reader::Order::kJournalsFirst, [&](model::Batch& batch) {
    for (std::size_t i = 0; i < batch.tensors.size(); ++i) {
      model::Epoch* epoch = epoch_of(batch.snapshots[i].span_id);
      if (epoch != nullptr && wanted(*epoch, batch.tensors[i]))
        take(*epoch, batch.tensors[i], batch.snapshots[i].json);
    }
  });
  skipped_ = reader.skipped();
}

Missing SnapshotSearch::missing() const {
  // If the run is missing, nothing can be said about its ranks.
  if (std::vector<Missing> chosen = selection_.missing(); !chosen.empty()) return chosen.front();
  if (names_.empty()) return {Missing::What::kCaptures, {}, {}};
  if (query_.epoch && !indexes_.contains(*query_.epoch)) {
    Missing epoch{Missing::What::kEpoch, std::to_string(*query_.epoch), {}};
    for (const std::int64_t index : indexes_) epoch.there.push_back(std::to_string(index));
    return epoch;
  }
  if (!choice_.empty())
    return {Missing::What::kTensor, query_.tensor, {choice_.begin(), choice_.end()}};
  return {query_.weights ? Missing::What::kWeights : Missing::What::kGradients, {}, {}};
}

NoRecords SnapshotSearch::why_none() const {
  NoRecords why{missing(), {}};
  if (why.missing.what == Missing::What::kCaptures)
    why.reasons = analysis::why_no_snapshots(sessions_, epoch_spans_, selection_.runs());
  return why;
}

Tensors read_tensors(Source& source, const SnapshotQuery& query) {
  Tensors out;
  SnapshotSearch search(source, query);
  search.each([&](model::Epoch& epoch, const model::TensorStats& tensor, std::string_view) {
    out.table.add(epoch, tensor);
  });
  out.table.sort();
  if (out.table.lines().empty()) out.none = search.why_none();
  out.skipped = search.skipped();
  out.epochs = search.take_epochs();
  return out;
}

}  // namespace sonde::run
