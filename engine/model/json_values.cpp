#include "engine/model/json_values.h"

#include <cmath>
#include <cstdint>
#include <span>

#include "engine/base/id.h"
#include "engine/base/json_writer.h"
#include "engine/base/non_finite.h"
#include "engine/model/trace.h"

namespace sonde::model {

void write_value(base::JsonWriter& out, const Mark& mark) {
  switch (mark.type) {
    case ValueType::kFloat:
      return std::isfinite(mark.real) ? out.number(mark.real) : out.null();
    case ValueType::kInt:
      return mark.text.empty() ? out.number(mark.integer) : out.raw(mark.text);
    case ValueType::kBool:
      return out.boolean(mark.integer != 0);
    case ValueType::kString:
      return out.string(mark.text);
  }
}

void write_nonfinite(base::JsonWriter& out, const Mark& mark) {
  if (mark.type != ValueType::kFloat || std::isfinite(mark.real)) [[likely]]
    return;
  out.raw(",\"value_nonfinite\":");
  out.string(base::non_finite_name(mark.real));
}

void write_mark(base::JsonWriter& out, const Mark& mark) {
  out.raw("{\"name\":");
  out.string(mark.name);
  out.raw(",\"value\":");
  write_value(out, mark);
  out.raw(mark.summary ? ",\"kind\":\"summary\"" : ",\"kind\":\"point\"");
  write_nonfinite(out, mark);
  out.raw('}');
}

void write_marks(base::JsonWriter& out, std::span<const Mark> marks) {
  out.raw('[');
  for (const Mark& mark : marks) {
    if (&mark != &marks.front()) out.raw(',');
    write_mark(out, mark);
  }
  out.raw(']');
}

void write_optional(base::JsonWriter& out, std::int64_t value) {
  value == kNone ? out.null() : out.number(value);
}

void write_optional(base::JsonWriter& out, const base::Id& id) { id ? out.hex(id) : out.null(); }

}  // namespace sonde::model
