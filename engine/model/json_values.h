// Trace values inside the JSON of reports and columns.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include "engine/base/id.h"
#include "engine/base/json_writer.h"
#include "engine/model/span_fields.h"
#include "engine/model/trace.h"

namespace sonde::model {

// The value alone; null for a float that is not finite, which write_nonfinite then names.
void write_value(base::JsonWriter& out, const Mark& mark);
// ,"value_nonfinite":"nan" for a mark whose value is not finite, nothing for all others.
void write_nonfinite(base::JsonWriter& out, const Mark& mark);
// {"name": ..., "value": ..., "kind": ...}
void write_mark(base::JsonWriter& out, const Mark& mark);
// A list of those.
void write_marks(base::JsonWriter& out, std::span<const Mark> marks);
void write_optional(base::JsonWriter& out, std::int64_t value);  // null for kNone
void write_optional(base::JsonWriter& out, const base::Id& id);  // null for the null id

// The value of a field that is a member of Span.
template <typename One>
void write_field(base::JsonWriter& out, const Span& span) {
  const auto& value = One::of(span);
  if constexpr (One::kKind == Kind::kId) {
    out.hex(value);
  } else if constexpr (One::kKind == Kind::kName) {
    out.string(value);
  } else if constexpr (One::kKind == Kind::kMembers) {
    out.raw('{');
    out.raw(value);
    out.raw('}');
  } else if constexpr (std::unsigned_integral<std::remove_cvref_t<decltype(value)>>) {
    out.number(value);
  } else {
    write_optional(out, value);
  }
}

}  // namespace sonde::model
