#include "engine/snapshot/capture.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/non_finite.h"

namespace sonde::snapshot {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The five numbers of a record, in the order in which they are written.
struct Numbers {
  double mean, std, min, max, norm;

  template <typename Visit>
  void each(Visit visit) const {
    visit("mean", mean);
    visit("std", std);
    visit("min", min);
    visit("max", max);
    visit("norm", norm);
  }
};

Numbers of_finite(const Statistics& found) noexcept {
  return {found.mean, found.std, found.min, found.max, found.norm};
}

// What plain arithmetic gives over all values, those that are not finite included.
Numbers of_all(const Statistics& found) noexcept {
  if (found.nan_count != 0) return {kNan, kNan, kNan, kNan, kNan};
  const bool minus = found.minus_inf_count != 0;
  const bool plus = found.inf_count != found.minus_inf_count;
  Numbers out{kNan, kNan, found.min, found.max, kInfinity};
  if (minus != plus) out.mean = plus ? kInfinity : -kInfinity;
  // Where there is no finite value, the infinities of one sign are both extremes.
  if (minus || found.count == 0) out.min = minus ? -kInfinity : kInfinity;
  if (plus || found.count == 0) out.max = plus ? kInfinity : -kInfinity;
  return out;
}

void encode_count(base::JsonWriter& out, std::string_view key, std::uint64_t value) {
  out.raw(key);
  out.number(value);
}

// "mean":0.5,...: null for what is not finite.
void encode_numbers(base::JsonWriter& out, const Numbers& numbers) {
  std::string_view before = "\"";
  numbers.each([&](std::string_view name, double value) {
    out.raw(before);
    out.raw(name);
    out.raw("\":");
    std::isfinite(value) ? out.number(value) : out.null();
    before = ",\"";
  });
}

// ,"nonfinite":{"norm":"inf"}: what stands behind the nulls; nothing where there are none.
void encode_names(base::JsonWriter& out, const Numbers& numbers) {
  std::string_view before = ",\"nonfinite\":{\"";
  numbers.each([&](std::string_view name, double value) {
    if (std::isfinite(value)) return;
    out.raw(before);
    out.raw(name);
    out.raw("\":");
    out.string(base::non_finite_name(value));
    before = ",\"";
  });
  if (before == ",\"") out.raw('}');
}

void encode_histogram(base::JsonWriter& out, const Statistics& found) {
  out.raw(",\"histogram\":{\"bins\":[");
  // Of an empty tensor there is no range: all zero, as in the reference.
  for (int i = 0; i <= Statistics::kBins; ++i) {
    if (i != 0) out.raw(',');
    out.number(found.edge(i));
  }
  out.raw("],\"counts\":[");
  for (std::size_t i = 0; i < found.counts.size(); ++i) {
    if (i != 0) out.raw(',');
    out.number(found.counts[i]);
  }
  out.raw("]}");
}

// Numbers over finite values may still be too large: a norm beyond the range of float64.
void encode_finite(base::JsonWriter& out, const Statistics& found) {
  encode_numbers(out, of_finite(found));
  encode_histogram(out, found);
  encode_names(out, of_finite(found));
}

void encode_statistics(base::JsonWriter& out, const Statistics& found) {
  out.raw('{');
  if (found.non_finite_count() == 0) {
    encode_finite(out, found);
  } else {
    encode_numbers(out, of_all(found));
    encode_count(out, ",\"nonfinite_count\":", found.non_finite_count());
    encode_count(out, ",\"finite\":{\"count\":", found.count);
    if (found.count != 0) {
      out.raw(',');
      encode_finite(out, found);
    }
    out.raw('}');
    encode_names(out, of_all(found));
  }
  encode_count(out, ",\"count\":", found.count);
  encode_count(out, ",\"nan_count\":", found.nan_count);
  encode_count(out, ",\"inf_count\":", found.inf_count);
  encode_count(out, ",\"zero_count\":", found.zero_count);
  out.raw('}');
}

bool is_in_blob(const Capture& capture, std::size_t record) {
  return !capture.blob_uri.empty() && record < capture.in_blob.size() && capture.in_blob[record];
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

void encode(base::JsonWriter& out, const Capture& capture, std::size_t record, const base::Id& id) {
  const Entry& entry = (*capture.catalogue)[record];
  out.raw("{\"id\":");
  out.hex(id);
  out.raw(",\"span_id\":");
  out.hex(capture.span_id);
  out.raw(",\"tensor_name\":");
  out.string(entry.name);
  out.raw(",\"shape\":[");
  for (std::size_t i = 0; i < entry.shape.size(); ++i) {
    if (i != 0) out.raw(',');
    out.number(entry.shape[i]);
  }
  out.raw("],\"dtype\":");
  out.string(entry.dtype);
  const bool in_blob = is_in_blob(capture, record);
  out.raw(",\"mode\":");
  out.string(in_blob ? std::string_view(capture.mode) : std::string_view("stats"));
  out.raw(",\"stats\":");
  if (record < capture.statistics.size() && capture.statistics[record]) {
    encode_statistics(out, *capture.statistics[record]);
  } else {
    out.null();
  }
  out.raw(",\"blob_uri\":");
  if (in_blob) {
    out.string(capture.blob_uri);
  } else {
    out.null();
  }
  out.raw(",\"ts_ns\":");
  out.number(capture.ts_ns);
  out.raw(",\"attrs\":{");
  out.raw(capture.attrs);
  if (!capture.attrs.empty() && !entry.attrs.empty()) out.raw(',');
  out.raw(entry.attrs);
  out.raw("}}");
}

}  // namespace sonde::snapshot
