#include "engine/codec/encode.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "engine/base/id.h"
#include "engine/base/json_writer.h"
#include "engine/model/json_values.h"
#include "engine/model/mark_fields.h"
#include "engine/model/span_fields.h"
#include "engine/model/trace.h"

namespace sonde::codec {

namespace {

using model::Kind;

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

// Written first: a name may be of any length, the rest of a span is not.
template <typename One>
constexpr bool kInFront = One::kKind == Kind::kId || One::kKind == Kind::kName;

// The longest value of bounded length: an id with its quotes.
constexpr std::size_t kLongestValue = 34;

constexpr std::size_t fixed_bytes() {
  std::size_t bytes = 1;
  model::for_each_field<model::kSpool>([&]<typename One>(One) {
    if (!kInFront<One>) bytes += One::key().size() + kLongestValue;
  });
  return bytes;
}

template <typename One>
void put_field(char*& at, const model::Span& span, const model::Batch& batch) {
  put(at, One::key());
  if constexpr (One::kKind == Kind::kMarkIds) {
    *at++ = '[';
    for (std::uint32_t i = 0; i < span.mark_id_count; ++i) {
      if (i != 0) *at++ = ',';
      put_id(at, batch.mark_ids[span.first_mark_id + i]);
    }
    *at++ = ']';
  } else if constexpr (One::kKind == Kind::kMembers) {
    *at++ = '{';
    put(at, One::of(span));
    *at++ = '}';
  } else if constexpr (One::kKind == Kind::kParent) {
    One::of(span) ? put_id(at, One::of(span)) : put(at, "null");
  } else if constexpr (One::kKind == Kind::kOptional || One::kKind == Kind::kEnd) {
    put_optional(at, One::of(span));
  } else {
    put_number(at, One::of(span));
  }
}

}  // namespace

void encode_span(base::JsonWriter& out, const model::Span& span, const model::Batch& batch) {
  bool first = true;
  model::for_each_field<model::kSpool>([&]<typename One>(One) {
    if constexpr (kInFront<One>) {
      if (first) out.raw('{');
      out.raw(One::key().substr(first ? 1 : 0));
      first = false;
      model::write_field<One>(out, span);
    }
  });
  // Everything of bounded length goes into one reserved piece: a span costs a handful of copies.
  constexpr std::size_t kMarkIdBytes = 35;
  char* const start = out.reserve(fixed_bytes() + span.attrs.size() +
                                  std::size_t{span.mark_id_count} * kMarkIdBytes);
  char* at = start;
  model::for_each_field<model::kSpool>([&]<typename One>(One) {
    if constexpr (!kInFront<One>) put_field<One>(at, span, batch);
  });
  *at++ = '}';
  out.advance(static_cast<std::size_t>(at - start));
}

namespace {

constexpr std::string_view value_type_name(model::ValueType type) noexcept {
  switch (type) {
    case model::ValueType::kFloat:
      return "\"float\"";
    case model::ValueType::kInt:
      return "\"int\"";
    case model::ValueType::kBool:
      return "\"bool\"";
    case model::ValueType::kString:
      break;
  }
  return "\"string\"";
}

}  // namespace

void encode_mark(base::JsonWriter& out, const model::Mark& mark) {
  namespace fields = model::mark_fields;
  out.raw('{');
  out.raw(fields::kKeys[fields::kId].first());
  out.hex(mark.id);
  out.raw(fields::kKeys[fields::kSpanId].next());
  mark.span_id ? out.hex(mark.span_id) : out.string(fields::kNoSpan);
  out.raw(fields::kKeys[fields::kName].next());
  out.string(mark.name);
  out.raw(fields::kKeys[fields::kValueType].next());
  out.raw(value_type_name(mark.type));
  out.raw(fields::kKeys[fields::kValue].next());
  model::write_value(out, mark);
  out.raw(fields::kKeys[fields::kAttrs].next());
  out.raw('{');
  out.raw(mark.attrs);
  out.raw('}');
  out.raw(fields::kKeys[fields::kTime].next());
  out.number(mark.ts_ns);
  out.raw(fields::kKeys[fields::kKind].next());
  out.string(fields::kind_name(mark));
  model::write_nonfinite(out, mark);
  out.raw('}');
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

}  // namespace sonde::codec
