#include "engine/spool/encode.h"

#include <charconv>

namespace sonde::spool {

namespace {

void put(char*& at, std::string_view text) {
  if (!text.empty()) std::memcpy(at, text.data(), text.size());  // an empty one may have no address
  at += text.size();
}

template <typename T>
void put_number(char*& at, T value) {
  at = std::to_chars(at, at + 24, value).ptr;
}

void put_optional(char*& at, std::int64_t value) {
  if (value == model::kNone) {
    put(at, "null");
  } else {
    put_number(at, value);
  }
}

void put_id(char*& at, const base::Id& id) {
  *at++ = '"';
  base::write_hex(id, at);
  at += 32;
  *at++ = '"';
}

}  // namespace

void encode_span(base::JsonWriter& out, const model::Span& span, const model::Batch& batch) {
  // Everything of bounded length goes into one reserved piece: a span costs a handful of copies.
  out.raw("{\"id\":");
  out.hex(span.id);
  out.raw(",\"name\":");
  out.string(span.name);
  constexpr std::size_t kFixed = 512;
  char* const start =
      out.reserve(kFixed + span.attrs.size() + std::size_t{span.mark_id_count} * 35);
  char* at = start;
  put(at, ",\"parent_id\":");
  if (span.parent_id) {
    put_id(at, span.parent_id);
  } else {
    put(at, "null");
  }
  put(at, ",\"index\":");
  put_optional(at, span.index);
  put(at, ",\"start_ns\":");
  put_number(at, span.start_ns);
  put(at, ",\"end_ns\":");
  put_optional(at, span.end_ns);
  put(at, ",\"cpu_ns\":");
  put_optional(at, span.cpu_ns);
  put(at, ",\"gpu_ns\":");
  put_optional(at, span.gpu_ns);
  put(at, ",\"memory_peak_bytes\":");
  put_optional(at, span.memory_peak_bytes);
  put(at, ",\"thread_id\":");
  put_number(at, span.thread_id);
  put(at, ",\"pid\":");
  put_number(at, span.pid);
  put(at, ",\"rank\":");
  put_number(at, span.rank);
  put(at, ",\"attrs\":{");
  put(at, span.attrs);
  put(at, "},\"mark_ids\":[");
  for (std::uint32_t i = 0; i < span.mark_id_count; ++i) {
    if (i != 0) *at++ = ',';
    put_id(at, batch.mark_ids[span.first_mark_id + i]);
  }
  put(at, "]}");
  out.advance(static_cast<std::size_t>(at - start));
}

namespace {

void encode_value(base::JsonWriter& out, const model::Mark& mark) {
  switch (mark.type) {
    case model::ValueType::kFloat:
      out.raw("\"float\",\"value\":");
      out.number(mark.real);
      break;
    case model::ValueType::kInt:
      out.raw("\"int\",\"value\":");
      if (mark.text.empty()) {
        out.number(mark.integer);
      } else {
        out.raw(mark.text);
      }
      break;
    case model::ValueType::kBool:
      out.raw("\"bool\",\"value\":");
      out.boolean(mark.integer != 0);
      break;
    case model::ValueType::kString:
      out.raw("\"string\",\"value\":");
      out.string(mark.text);
      break;
  }
}

}  // namespace

void encode_mark(base::JsonWriter& out, const model::Mark& mark) {
  out.raw("{\"id\":");
  out.hex(mark.id);
  out.raw(",\"span_id\":");
  if (mark.span_id) {
    out.hex(mark.span_id);
  } else {
    out.raw("\"root\"");
  }
  out.raw(",\"name\":");
  out.string(mark.name);
  out.raw(",\"value_type\":");
  encode_value(out, mark);
  out.raw(",\"attrs\":{");
  out.raw(mark.attrs);
  out.raw("},\"ts_ns\":");
  out.number(mark.ts_ns);
  out.raw(mark.summary ? ",\"kind\":\"summary\"}" : ",\"kind\":\"point\"}");
}

void encode_batch(base::JsonWriter& out, const model::Batch& batch) {
  out.raw("{\"schema_version\":");
  out.number(std::int64_t{model::kSchemaVersion});
  out.raw(",\"sdk_version\":");
  out.string(batch.sdk_version.empty() ? kSdkVersion : batch.sdk_version);
  out.raw(",\"batch_id\":");
  out.hex(batch.batch_id);
  out.raw(",\"created_ns\":");
  out.number(batch.created_ns);
  out.raw(",\"spans\":[");
  for (const model::Span& span : batch.spans) {
    if (&span != batch.spans.data()) out.raw(',');
    encode_span(out, span, batch);
  }
  out.raw("],\"marks\":[");
  for (const model::Mark& mark : batch.marks) {
    if (&mark != batch.marks.data()) out.raw(',');
    encode_mark(out, mark);
  }
  out.raw("],\"snapshots\":[");
  for (const model::Snapshot& snapshot : batch.snapshots) {
    if (&snapshot != batch.snapshots.data()) out.raw(',');
    out.raw(snapshot.json);
  }
  out.raw("]}");
}

}  // namespace sonde::spool
