#include "engine/snapshot/capture.h"

#include <algorithm>

namespace sonde::snapshot {

namespace {

void encode_count(base::JsonWriter& out, std::string_view key, std::uint64_t value) {
  out.raw(key);
  out.number(value);
}

void encode_statistics(base::JsonWriter& out, const Statistics& all) {
  out.raw("{\"mean\":");
  out.number(all.mean);
  out.raw(",\"std\":");
  out.number(all.std);
  out.raw(",\"min\":");
  out.number(all.min);
  out.raw(",\"max\":");
  out.number(all.max);
  out.raw(",\"norm\":");
  out.number(all.norm);
  out.raw(",\"histogram\":{\"bins\":[");
  // Without a finite value there is no range: all zero, as in the reference.
  for (int i = 0; i <= 16; ++i) {
    if (i != 0) out.raw(',');
    out.number(all.count == 0 ? 0.0 : all.edge(i));
  }
  out.raw("],\"counts\":[");
  for (std::size_t i = 0; i < all.counts.size(); ++i) {
    if (i != 0) out.raw(',');
    out.number(all.counts[i]);
  }
  encode_count(out, "]},\"count\":", all.count);
  encode_count(out, ",\"nan_count\":", all.nan_count);
  encode_count(out, ",\"inf_count\":", all.inf_count);
  encode_count(out, ",\"zero_count\":", all.zero_count);
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
    if (found && (found->nan_count != 0 || found->inf_count != 0)) return i;
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
