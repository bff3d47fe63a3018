#include "engine/snapshot/capture.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/base/id.h"
#include "engine/model/snapshot_record.h"
#include "engine/model/trace.h"
#include "engine/snapshot/statistics.h"

namespace sonde::snapshot {

namespace {

bool is_in_blob(const Capture& capture, std::size_t record) {
  return !capture.blob_uri.empty() && record < capture.in_blob.size() && capture.in_blob[record];
}

void add_statistics(const Statistics& found, model::SnapshotRecord& record) {
  model::TensorStats& tensor = record.tensor;
  tensor.known = true;
  tensor.mean = found.mean;
  tensor.std = found.std;
  tensor.min = found.min;
  tensor.max = found.max;
  tensor.norm = found.norm;
  tensor.count = static_cast<std::int64_t>(found.count);
  tensor.nan_count = static_cast<std::int64_t>(found.nan_count);
  tensor.inf_count = static_cast<std::int64_t>(found.inf_count);
  tensor.zero_count = static_cast<std::int64_t>(found.zero_count);
  record.minus_inf_count = static_cast<std::int64_t>(found.minus_inf_count);
  // An empty tensor has no range: its edges are all 0, as in the reference.
  for (int i = 0; i <= Statistics::kBins; ++i) record.edges.push_back(found.edge(i));
  record.bins = found.counts;
}

}  // namespace

std::size_t first_non_finite(const Capture& capture) noexcept {
  const std::size_t known = std::min(capture.size(), capture.statistics.size());
  for (std::size_t i = 0; i < known; ++i) {
    const auto& found = capture.statistics[i];
    if (found && found->non_finite_count() != 0) return i;
  }
  return capture.size();
}

model::SnapshotRecord record_of(const Capture& capture, std::size_t tensor, const base::Id& id) {
  const Entry& entry = (*capture.catalogue)[tensor];
  model::SnapshotRecord record;
  record.id = id;
  record.span_id = capture.span_id;
  record.tensor.name = entry.name;
  record.tensor.dtype = entry.dtype;
  record.shape = entry.shape;
  const bool in_blob = is_in_blob(capture, tensor);
  record.mode = in_blob ? std::string_view(capture.mode) : std::string_view("stats");
  if (in_blob) record.blob_uri = capture.blob_uri;
  record.ts_ns = capture.ts_ns;
  record.attrs = capture.attrs;
  record.tensor_attrs = entry.attrs;
  if (tensor < capture.statistics.size() && capture.statistics[tensor])
    add_statistics(*capture.statistics[tensor], record);
  return record;
}

}  // namespace sonde::snapshot
