// A batch as the JSON of spool v1 (docs/formats/spool.md).
#pragma once

#include <string_view>

#include "engine/base/json_writer.h"
#include "engine/model/trace.h"

namespace sonde::codec {

inline constexpr std::string_view kSdkVersion = SONDE_VERSION;

void encode_span(base::JsonWriter& out, const model::Span& span, const model::Batch& batch);
void encode_mark(base::JsonWriter& out, const model::Mark& mark);
// Appends the whole object, no newline.
void encode_batch(base::JsonWriter& out, const model::Batch& batch);

}  // namespace sonde::codec
