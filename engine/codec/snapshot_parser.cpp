#include "engine/codec/snapshot_parser.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/attr_names.h"
#include "engine/base/non_finite.h"
#include "engine/codec/detail.h"
#include "engine/codec/json_fields.h"
#include "engine/codec/json_text.h"
#include "engine/codec/snapshot_keys.h"
#include "engine/model/tensor_fields.h"
#include "engine/model/trace.h"

namespace sonde::codec {

namespace {

namespace keys = snapshot_keys;

constexpr Keys<keys::kKeys.size()> kSnapshot(keys::kKeys);

// The keys of "stats" in the order of the table: numbers, the rest, counts.
constexpr std::size_t kRestAt = model::kTensorNumbers.size();
constexpr std::size_t kCountsAt = kRestAt + keys::kRest.size();
constexpr std::size_t kStatsKeys = kCountsAt + model::kTensorCounts.size();
constexpr Keys<kStatsKeys> kStatistics([] {
  std::array<std::string_view, kStatsKeys> all;
  std::size_t at = 0;
  for (const auto& number : model::kTensorNumbers) all[at++] = number.key.quoted();
  for (const std::string_view key : keys::kRest) all[at++] = key;
  for (const auto& count : model::kTensorCounts) all[at++] = count.key.quoted();
  return all;
}());
constexpr Keys<keys::kCountOfHistogram> kHistogram(keys::kHistogramKeys);

void real(std::string_view token, double& out) {
  if (parse_real(token, out)) return;
  std::string_view body;
  if (!string_body(token, body) || !non_finite_of(body, out))
    out = std::numeric_limits<double>::quiet_NaN();
}

// Nothing but numbers and commas. The text is printed as it stands, so it must not hold anything
// else.
bool is_shape(std::string_view text) noexcept {
  return text.find_first_not_of("0123456789, -") == std::string_view::npos;
}

template <typename T>
std::uint32_t size_of(const std::vector<T>& list) noexcept {
  return static_cast<std::uint32_t>(list.size());
}

template <typename Take>
void append(ondemand::array list, Take take) {
  for (auto element : list) {
    auto&& value = must(std::move(element));
    take(token_of(value));
  }
}

}  // namespace

void SnapshotParser::parse(ondemand::array list) {
  for (auto element : list) one(must(must(std::move(element)).get_object()));
}

void SnapshotParser::one(ondemand::object object) {
  out_.snapshots.emplace_back();
  out_.tensors.emplace_back();
  for (auto result : object) {
    auto&& field = must(std::move(result));
    ondemand::value& value = field.value();
    const std::string_view token = token_of(value);
    const std::size_t key = kSnapshot.find(field.key().raw(), expected_);
    look_inside(key, token, value);
  }
  must(object.reset());
  model::Snapshot& snapshot = out_.snapshots.back();
  snapshot.json = out_.arena.copy(object_text(object));
}

// A value of the wrong type is left out: that is not a reason to refuse the batch.
void SnapshotParser::look_inside(std::size_t key, std::string_view token, ondemand::value& value) {
  model::Snapshot& snapshot = out_.snapshots.back();
  model::TensorStats& tensor = out_.tensors.back();
  switch (key) {
    case keys::kId:
      snapshot.id = id_of(token);
      break;
    case keys::kSpanId:
      snapshot.span_id = id_of(token);
      break;
    case keys::kMode:
      snapshot.mode = text(token);
      break;
    case keys::kBlobUri:
      snapshot.blob_uri = text(token);
      break;
    case keys::kTime:
      snapshot.ts_ns = optional_of(token);
      break;
    case keys::kTensorName:
      tensor.name = text(token);
      break;
    case keys::kDtype:
      tensor.dtype = text(token);
      break;
    case keys::kShape:
      if (token.starts_with('[')) shape(must(value.get_array()), tensor);
      break;
    case keys::kStats:
      if (token.starts_with('{')) stats(must(value.get_object()), Part::kAll, tensor);
      break;
    case keys::kAttrs:
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

// If some values of the tensor are not finite, "finite" has the statistics of those that are, and
// "nonfinite" names the numbers that are null. Both may come before the numbers they refer to.
// A "finite" inside "finite" is skipped: a file must not decide how deep the stack gets.
void SnapshotParser::stats(ondemand::object object, Part part, model::TensorStats& tensor) {
  tensor.known = true;
  model::TensorStats named, finite;
  std::int64_t non_finite = model::kNone;
  std::size_t expected = 0;
  for (auto result : object) {
    auto&& field = must(std::move(result));
    ondemand::value& value = field.value();
    const std::string_view token = token_of(value);
    const std::size_t key = kStatistics.find(field.key().raw(), expected);
    if (key < kRestAt) {
      real(token, tensor.*model::kTensorNumbers[key].member);
    } else if (key >= kCountsAt && key < kStatsKeys) {
      tensor.*model::kTensorCounts[key - kCountsAt].member = optional_of(token);
    } else if (key == kRestAt + keys::kNonFiniteCount) {
      non_finite = optional_of(token);
    } else if (key == kRestAt + keys::kHistogram && token.starts_with('{')) {
      if (detail_ == Detail::kAll) histogram(must(value.get_object()));
    } else if (key == kRestAt + keys::kFinite && token.starts_with('{')) {
      if (part == Part::kAll) stats(must(value.get_object()), Part::kFinite, finite);
    } else if (key == kRestAt + keys::kNonFinite && token.starts_with('{')) {
      names(must(value.get_object()), named);
    }
  }
  for (const auto& number : model::kTensorNumbers) {
    if (named.*number.member != 0) tensor.*number.member = named.*number.member;
  }
  if (non_finite != model::kNone) count_non_finite(non_finite, tensor);
  if (finite.known) take_finite(finite, tensor);
}

void SnapshotParser::histogram(ondemand::object object) {
  model::Snapshot& snapshot = out_.snapshots.back();
  std::size_t expected = 0;
  for (auto result : object) {
    auto&& field = must(std::move(result));
    ondemand::value& value = field.value();
    const std::size_t key = kHistogram.find(field.key().raw(), expected);
    if (!token_of(value).starts_with('[')) continue;
    if (key == keys::kEdges) {
      snapshot.first_edge = size_of(out_.edges);
      append(must(value.get_array()),
             [&](std::string_view token) { real(token, out_.edges.emplace_back()); });
      snapshot.edge_count = size_of(out_.edges) - snapshot.first_edge;
    } else if (key == keys::kBins) {
      snapshot.first_bin = size_of(out_.bins);
      append(must(value.get_array()),
             [&](std::string_view token) { out_.bins.push_back(optional_of(token)); });
      snapshot.bin_count = size_of(out_.bins) - snapshot.first_bin;
    }
  }
}

// {"mean": "nan", "max": "inf"}: the numbers of these names, 0 for the rest.
void SnapshotParser::names(ondemand::object object, model::TensorStats& named) {
  std::size_t expected = 0;
  for (auto result : object) {
    auto&& field = must(std::move(result));
    const std::string_view token = token_of(field.value());
    const std::size_t key = kStatistics.find(field.key().raw(), expected);
    if (key < kRestAt && token.starts_with('"'))
      named.*model::kTensorNumbers[key].member = base::non_finite_named(string_of(token));
  }
}

// The reference SDK has one count for NaNs and infinities. If there is a NaN, all of them count as
// NaNs; otherwise all are infinities. `tensor` still has the numbers over all values.
void SnapshotParser::count_non_finite(std::int64_t count, model::TensorStats& tensor) {
  if (tensor.nan_count != model::kNone) return;
  const bool nan = std::isnan(tensor.min) || std::isnan(tensor.max);
  tensor.nan_count = nan ? count : 0;
  if (!nan) tensor.inf_count = count;
}

void SnapshotParser::take_finite(const model::TensorStats& finite, model::TensorStats& tensor) {
  if (tensor.count == model::kNone) tensor.count = finite.count;
  for (const auto& number : model::kTensorNumbers) tensor.*number.member = finite.*number.member;
}

void SnapshotParser::attrs(ondemand::object object, model::TensorStats& tensor) {
  for (auto result : object) {
    auto&& field = must(std::move(result));
    const std::string_view token = token_of(field.value());
    if (field.key() == base::kUnavailableAttr) tensor.unavailable = text(token);
  }
}

std::string_view SnapshotParser::text(std::string_view token) {
  return token.starts_with('"') ? names_.get(string_of(token), out_.arena) : std::string_view();
}

}  // namespace sonde::codec
