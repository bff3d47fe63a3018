// Trace values inside the JSON of reports and columns.
#pragma once

#include <span>

#include "engine/base/json_writer.h"
#include "engine/model/trace.h"

namespace sonde::model {

void write_value(base::JsonWriter& out, const Mark& mark);
// [{"name": ..., "value": ..., "kind": ...}, ...]
void write_marks(base::JsonWriter& out, std::span<const Mark> marks);
void write_optional(base::JsonWriter& out, std::int64_t value);  // null for kNone
void write_optional(base::JsonWriter& out, const base::Id& id);  // null for the null id

}  // namespace sonde::model
