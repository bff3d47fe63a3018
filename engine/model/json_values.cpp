#include "engine/model/json_values.h"

#include <cstdint>
#include <span>

#include "engine/base/id.h"
#include "engine/base/json_writer.h"
#include "engine/base/non_finite.h"
#include "engine/model/mark_fields.h"
#include "engine/model/trace.h"

namespace sonde::model {

namespace fields = mark_fields;

void write_value(base::JsonWriter& out, const Mark& mark) {
  switch (mark.type) {
    case ValueType::kFloat:
      return fields::is_non_finite(mark) ? out.null() : out.number(mark.real);
    case ValueType::kInt:
      return mark.text.empty() ? out.number(mark.integer) : out.raw(mark.text);
    case ValueType::kBool:
      return out.boolean(mark.integer != 0);
    case ValueType::kString:
      return out.string(mark.text);
  }
}

void write_nonfinite(base::JsonWriter& out, const Mark& mark) {
  if (!fields::is_non_finite(mark)) [[likely]]
    return;
  out.raw(fields::kKeys[fields::kNonFinite].next());
  out.string(base::non_finite_name(mark.real));
}

void write_mark(base::JsonWriter& out, const Mark& mark) {
  out.raw('{');
  out.raw(fields::kKeys[fields::kName].first());
  out.string(mark.name);
  out.raw(fields::kKeys[fields::kValue].next());
  write_value(out, mark);
  out.raw(fields::kKeys[fields::kKind].next());
  out.string(fields::kind_name(mark));
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
