#include "engine/codec/snapshot_parser.h"

#include <array>
#include <cmath>

#include "engine/base/non_finite.h"

namespace sonde::codec {

namespace {

enum SnapshotKey : std::size_t {
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
  kSnapshotKeys
};
constexpr Keys<kSnapshotKeys> kSnapshot({"id\"", "span_id\"", "tensor_name\"", "shape\"", "dtype\"",
                                         "mode\"", "stats\"", "blob_uri\"", "ts_ns\"", "attrs\""});

enum StatsKey : std::size_t {
  kMean,
  kStd,
  kMin,
  kMax,
  kNorm,
  kHistogram,
  kNonFiniteCount,
  kFinite,
  kNonFinite,
  kCount,
  kNanCount,
  kInfCount,
  kZeroCount,
  kStatsKeys
};
constexpr Keys<kStatsKeys> kStatistics({"mean\"", "std\"", "min\"", "max\"", "norm\"",
                                        "histogram\"", "nonfinite_count\"", "finite\"",
                                        "nonfinite\"", "count\"", "nan_count\"", "inf_count\"",
                                        "zero_count\""});
// In the order of the keys, from kMean and from kCount.
using Stats = model::TensorStats;
constexpr std::array kNumbers = {&Stats::mean, &Stats::std, &Stats::min, &Stats::max, &Stats::norm};
constexpr std::array kCounts = {&Stats::count, &Stats::nan_count, &Stats::inf_count,
                                &Stats::zero_count};

void real(std::string_view token, double& out) {
  if (parse_real(token, out)) return;
  std::string_view body;
  if (!string_body(token, body) || !non_finite_of(body, out))
    out = std::numeric_limits<double>::quiet_NaN();
}

// Nothing but numbers and commas: what is printed as it stands must be no more than it claims.
bool is_shape(std::string_view text) noexcept {
  return text.find_first_not_of("0123456789, -") == std::string_view::npos;
}

}  // namespace

void SnapshotParser::parse(ondemand::array list) {
  for (auto element : list) one(must(must(std::move(element)).get_object()));
}

void SnapshotParser::one(ondemand::object object) {
  model::Snapshot& snapshot = out_.snapshots.emplace_back();
  if (detail_ == Detail::kTensors) out_.tensors.emplace_back();
  for (auto result : object) {
    auto&& field = must(std::move(result));
    ondemand::value& value = field.value();
    const std::string_view token = token_of(value);
    const std::size_t key = kSnapshot.find(field.key().raw(), expected_);
    if (key == kId) snapshot.id = id_of(token);
    if (key == kSpanId) snapshot.span_id = id_of(token);
    if (detail_ == Detail::kTensors) look_inside(key, token, value);
  }
  must(object.reset());
  snapshot.json = out_.arena.copy(object_text(object));
}

// What is of another type than it should be is left out: a file that can be traced can be read here
// too.
void SnapshotParser::look_inside(std::size_t key, std::string_view token, ondemand::value& value) {
  model::TensorStats& tensor = out_.tensors.back();
  switch (key) {
    case kTensorName:
      tensor.name = text(token);
      break;
    case kDtype:
      tensor.dtype = text(token);
      break;
    case kShape:
      if (token.starts_with('[')) shape(must(value.get_array()), tensor);
      break;
    case kStats:
      if (token.starts_with('{')) stats(must(value.get_object()), tensor);
      break;
    case kAttrs:
      if (token.starts_with('{')) attrs(must(value.get_object()), tensor);
      break;
    default:
      break;
  }
}

void SnapshotParser::shape(ondemand::array list, model::TensorStats& tensor) {
  const std::string_view all = trim(must(list.raw_json()));
  const std::string_view numbers = trim(all.substr(1, all.size() - 2));
  if (is_shape(numbers)) tensor.shape = out_.arena.copy(numbers);
}

// Of a tensor whose values are not all finite, "finite" has the statistics of those that are;
// "nonfinite" names the numbers that are null. Both may stand in front of what they are about.
void SnapshotParser::stats(ondemand::object object, model::TensorStats& tensor) {
  tensor.known = true;
  model::TensorStats named, finite;
  std::int64_t non_finite = model::kNone;
  std::size_t expected = 0;
  for (auto result : object) {
    auto&& field = must(std::move(result));
    ondemand::value& value = field.value();
    const std::string_view token = token_of(value);
    const std::size_t key = kStatistics.find(field.key().raw(), expected);
    if (key <= kNorm) {
      real(token, tensor.*kNumbers[key]);
    } else if (key >= kCount && key <= kZeroCount) {
      tensor.*kCounts[key - kCount] = optional_of(token);
    } else if (key == kNonFiniteCount) {
      non_finite = optional_of(token);
    } else if (key == kFinite && token.starts_with('{')) {
      stats(must(value.get_object()), finite);
    } else if (key == kNonFinite && token.starts_with('{')) {
      names(must(value.get_object()), named);
    }
  }
  for (const auto number : kNumbers) {
    if (named.*number != 0) tensor.*number = named.*number;
  }
  if (finite.known) take_finite(finite, non_finite, tensor);
}

// {"mean": "nan", "max": "inf"}: the numbers of these names, 0 for the rest.
void SnapshotParser::names(ondemand::object object, model::TensorStats& named) {
  std::size_t expected = 0;
  for (auto result : object) {
    auto&& field = must(std::move(result));
    const std::string_view token = token_of(field.value());
    const std::size_t key = kStatistics.find(field.key().raw(), expected);
    if (key <= kNorm && token.starts_with('"'))
      named.*kNumbers[key] = base::non_finite_named(string_of(token));
  }
}

// The Cirron SDK does not tell NaNs from infinities. Where one of the two is certain not to be
// there, the other is counted; where there is a NaN, the infinities beside it count as NaNs.
void SnapshotParser::take_finite(const model::TensorStats& finite, std::int64_t non_finite,
                                 model::TensorStats& tensor) {
  if (tensor.nan_count == model::kNone && non_finite != model::kNone) {
    const bool nan = std::isnan(tensor.min) || std::isnan(tensor.max);
    tensor.nan_count = nan ? non_finite : 0;
    if (!nan) tensor.inf_count = non_finite;
  }
  if (tensor.count == model::kNone) tensor.count = finite.count;
  for (const auto number : kNumbers) tensor.*number = finite.*number;
}

void SnapshotParser::attrs(ondemand::object object, model::TensorStats& tensor) {
  for (auto result : object) {
    auto&& field = must(std::move(result));
    const std::string_view token = token_of(field.value());
    if (field.key() == "unavailable") tensor.unavailable = text(token);
  }
}

std::string_view SnapshotParser::text(std::string_view token) {
  return token.starts_with('"') ? names_.get(string_of(token), out_.arena) : std::string_view();
}

}  // namespace sonde::codec
