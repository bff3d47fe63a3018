// The keys of a snapshot, for the encoder and the parser. Each has its closing quote: "mean\"".
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

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

// The members of "stats", in the order in which they are written: model::kTensorNumbers, these, and
// model::kTensorCounts.
enum Rest : std::size_t { kHistogram, kNonFiniteCount, kFinite, kNonFinite, kCountOfRest };
inline constexpr std::array<std::string_view, kCountOfRest> kRest = {
    "histogram\"", "nonfinite_count\"", "finite\"", "nonfinite\""};

enum HistogramKey : std::size_t { kEdges, kBins, kCountOfHistogram };
inline constexpr std::array<std::string_view, kCountOfHistogram> kHistogramKeys = {"bins\"",
                                                                                   "counts\""};

}  // namespace sonde::codec::snapshot_keys
