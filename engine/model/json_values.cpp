#include "engine/model/json_values.h"

namespace sonde::model {

void write_value(base::JsonWriter& out, const Mark& mark) {
  switch (mark.type) {
    case ValueType::kFloat:
      return out.number(mark.real);
    case ValueType::kInt:
      return mark.text.empty() ? out.number(mark.integer) : out.raw(mark.text);
    case ValueType::kBool:
      return out.boolean(mark.integer != 0);
    case ValueType::kString:
      return out.string(mark.text);
  }
}

void write_marks(base::JsonWriter& out, std::span<const Mark> marks) {
  for (const Mark& mark : marks) {
    out.raw(&mark == &marks.front() ? "[{\"name\":" : ",{\"name\":");
    out.string(mark.name);
    out.raw(",\"value\":");
    write_value(out, mark);
    out.raw(mark.summary ? ",\"kind\":\"summary\"}" : ",\"kind\":\"point\"}");
  }
  out.raw(marks.empty() ? "[]" : "]");
}

void write_optional(base::JsonWriter& out, std::int64_t value) {
  value == kNone ? out.null() : out.number(value);
}

void write_optional(base::JsonWriter& out, const base::Id& id) { id ? out.hex(id) : out.null(); }

}  // namespace sonde::model
