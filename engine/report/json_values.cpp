#include "engine/report/json_values.h"

namespace sonde::report {

void write_value(base::JsonWriter& out, const model::Mark& mark) {
  switch (mark.type) {
    case model::ValueType::kFloat:
      return out.number(mark.real);
    case model::ValueType::kInt:
      return mark.text.empty() ? out.number(mark.integer) : out.raw(mark.text);
    case model::ValueType::kBool:
      return out.boolean(mark.integer != 0);
    case model::ValueType::kString:
      return out.string(mark.text);
  }
}

void write_optional(base::JsonWriter& out, std::int64_t value) {
  value == model::kNone ? out.null() : out.number(value);
}

void write_optional(base::JsonWriter& out, const base::Id& id) { id ? out.hex(id) : out.null(); }

}  // namespace sonde::report
