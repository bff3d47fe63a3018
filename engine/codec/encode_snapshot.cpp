#include "engine/codec/encode_snapshot.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "engine/base/json_writer.h"
#include "engine/base/non_finite.h"
#include "engine/codec/snapshot_keys.h"
#include "engine/model/snapshot_record.h"
#include "engine/model/tensor_fields.h"
#include "engine/model/trace.h"

namespace sonde::codec {

namespace {

namespace keys = snapshot_keys;
using model::SnapshotRecord;
using model::TensorStats;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::int64_t non_finite_count(const TensorStats& tensor) noexcept {
  return tensor.nan_count + tensor.inf_count;
}

// What plain arithmetic gives over all values, those that are not finite included. `finite`: the
// numbers over the finite values.
TensorStats over_all(const TensorStats& finite, std::int64_t minus_inf_count) noexcept {
  TensorStats all = finite;
  if (finite.nan_count != 0) {
    for (const auto& number : model::kTensorNumbers) all.*number.member = kNan;
    return all;
  }
  const bool minus = minus_inf_count != 0;
  const bool plus = finite.inf_count != minus_inf_count;
  all.mean = minus && plus ? kNan : plus ? kInfinity : -kInfinity;
  all.std = kNan;
  all.norm = kInfinity;
  // Where there is no finite value, the infinities of one sign are both extremes.
  if (minus || finite.count == 0) all.min = minus ? -kInfinity : kInfinity;
  if (plus || finite.count == 0) all.max = plus ? kInfinity : -kInfinity;
  return all;
}

void put_key(base::JsonWriter& out, std::string_view before, std::string_view key) {
  out.raw(before);
  out.raw(key);
  out.raw(':');
}

// "mean":0.5,...: null for what is not finite.
void encode_numbers(base::JsonWriter& out, const TensorStats& tensor) {
  std::string_view before = "\"";
  for (const auto& number : model::kTensorNumbers) {
    const double value = tensor.*number.member;
    put_key(out, before, number.key.quoted());
    std::isfinite(value) ? out.number(value) : out.null();
    before = ",\"";
  }
}

// ,"nonfinite":{"norm":"inf"}: the values of the numbers that are null; nothing where none is.
void encode_non_finite(base::JsonWriter& out, const TensorStats& tensor) {
  bool any = false;
  for (const auto& number : model::kTensorNumbers) {
    const double value = tensor.*number.member;
    if (std::isfinite(value)) continue;
    if (!any) put_key(out, ",\"", keys::kRest[keys::kNonFinite]);
    put_key(out, any ? ",\"" : "{\"", number.key.quoted());
    out.string(base::non_finite_name(value));
    any = true;
  }
  if (any) out.raw('}');
}

template <typename List>
void encode_list(base::JsonWriter& out, const List& list) {
  out.raw('[');
  bool first = true;
  for (const auto value : list) {
    if (!first) out.raw(',');
    first = false;
    out.number(value);
  }
  out.raw(']');
}

void encode_histogram(base::JsonWriter& out, const SnapshotRecord& record) {
  put_key(out, ",\"", keys::kRest[keys::kHistogram]);
  put_key(out, "{\"", keys::kHistogramKeys[keys::kEdges]);
  encode_list(out, record.edges);
  put_key(out, ",\"", keys::kHistogramKeys[keys::kBins]);
  encode_list(out, record.bins);
  out.raw('}');
}

// Numbers over finite values may still be too large: a norm beyond the range of float64.
void encode_finite(base::JsonWriter& out, const SnapshotRecord& record) {
  encode_numbers(out, record.tensor);
  encode_histogram(out, record);
  encode_non_finite(out, record.tensor);
}

void encode_over_all(base::JsonWriter& out, const SnapshotRecord& record) {
  const TensorStats all = over_all(record.tensor, record.minus_inf_count);
  encode_numbers(out, all);
  put_key(out, ",\"", keys::kRest[keys::kNonFiniteCount]);
  out.number(non_finite_count(record.tensor));
  put_key(out, ",\"", keys::kRest[keys::kFinite]);
  put_key(out, "{\"", model::kTensorCounts.front().key.quoted());
  out.number(record.tensor.count);
  if (record.tensor.count != 0) {
    out.raw(',');
    encode_finite(out, record);
  }
  out.raw('}');
  encode_non_finite(out, all);
}

void encode_statistics(base::JsonWriter& out, const SnapshotRecord& record) {
  out.raw('{');
  if (non_finite_count(record.tensor) == 0) {
    encode_finite(out, record);
  } else {
    encode_over_all(out, record);
  }
  for (const auto& count : model::kTensorCounts) {
    put_key(out, ",\"", count.key.quoted());
    out.number(record.tensor.*count.member);
  }
  out.raw('}');
}

void encode_value(base::JsonWriter& out, const SnapshotRecord& record, keys::Key key) {
  switch (key) {
    case keys::kId:
      return out.hex(record.id);
    case keys::kSpanId:
      return out.hex(record.span_id);
    case keys::kTensorName:
      return out.string(record.tensor.name);
    case keys::kShape:
      return encode_list(out, record.shape);
    case keys::kDtype:
      return out.string(record.tensor.dtype);
    case keys::kMode:
      return out.string(record.mode);
    case keys::kStats:
      return record.tensor.known ? encode_statistics(out, record) : out.null();
    case keys::kBlobUri:
      return record.blob_uri.empty() ? out.null() : out.string(record.blob_uri);
    case keys::kTime:
      return out.number(record.ts_ns);
    default:
      break;
  }
  out.raw('{');
  out.raw(record.attrs);
  if (!record.attrs.empty() && !record.tensor_attrs.empty()) out.raw(',');
  out.raw(record.tensor_attrs);
  out.raw('}');
}

}  // namespace

void encode_snapshot(base::JsonWriter& out, const SnapshotRecord& record) {
  for (std::size_t key = 0; key < keys::kKeys.size(); ++key) {
    put_key(out, key == 0 ? "{\"" : ",\"", keys::kKeys[key]);
    encode_value(out, record, static_cast<keys::Key>(key));
  }
  out.raw('}');
}

}  // namespace sonde::codec
