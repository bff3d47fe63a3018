// The keys of a snapshot, for the encoder and the parser. Each has its closing quote: "mean\"".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/model/trace.h"

namespace sonde::codec::snapshot_keys {

enum Key : std::size_t {
  kId,
  kSpanId,
  kTensorName,
  kShape,
  kDtype,
  kMode,
  kStats,
  kBlobUri,
  kTime,
  kAttrs,
  kCountOfKeys
};
inline constexpr std::array<std::string_view, kCountOfKeys> kKeys = {
    "id\"",   "span_id\"", "tensor_name\"", "shape\"", "dtype\"",
    "mode\"", "stats\"",   "blob_uri\"",    "ts_ns\"", "attrs\""};

// The members of "stats", in the order in which they are written: the numbers, the rest, the
// counts.
template <typename T>
struct Statistic {
  std::string_view key;
  T model::TensorStats::* member;
};
inline constexpr std::array kNumbers = {
    Statistic<double>{"mean\"", &model::TensorStats::mean},
    Statistic<double>{"std\"", &model::TensorStats::std},
    Statistic<double>{"min\"", &model::TensorStats::min},
    Statistic<double>{"max\"", &model::TensorStats::max},
    Statistic<double>{"norm\"", &model::TensorStats::norm},
};
inline constexpr std::array kCounts = {
    Statistic<std::int64_t>{"count\"", &model::TensorStats::count},
    Statistic<std::int64_t>{"nan_count\"", &model::TensorStats::nan_count},
    Statistic<std::int64_t>{"inf_count\"", &model::TensorStats::inf_count},
    Statistic<std::int64_t>{"zero_count\"", &model::TensorStats::zero_count},
};
enum Rest : std::size_t { kHistogram, kNonFiniteCount, kFinite, kNonFinite, kCountOfRest };
inline constexpr std::array<std::string_view, kCountOfRest> kRest = {
    "histogram\"", "nonfinite_count\"", "finite\"", "nonfinite\""};

}  // namespace sonde::codec::snapshot_keys
