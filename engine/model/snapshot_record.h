// A snapshot on its way to the spool: what codec writes of one tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/id.h"
#include "engine/model/trace.h"

namespace sonde::model {

// Views point into the capture that the record was made of.
struct SnapshotRecord {
  base::Id id, span_id;
  TensorStats tensor;                // without its shape, which stands below as numbers
  std::int64_t minus_inf_count = 0;  // of tensor.inf_count, the negative ones
  std::span<const std::int64_t> shape;
  std::vector<double> edges;            // of the histogram; one more than it has bins
  std::span<const std::uint64_t> bins;  // how many values each holds
  std::string_view mode;                // "stats", or how the values were stored
  std::string_view blob_uri;            // empty: the values were not stored
  std::int64_t ts_ns = 0;
  std::string_view attrs, tensor_attrs;  // JSON members: of the capture, of this tensor
};

}  // namespace sonde::model
