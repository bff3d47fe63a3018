// One span as one line of text, the same in the live sinks, in trace() and in the commands:
//   epoch[0] - 142us {epoch_loss=0.5234}
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/model/trace.h"

namespace sonde::line {

// Appends text of the program for one line of a terminal: control characters are replaced.
void append_clean(std::string& out, std::string_view text);

// `name` or `name[index]`.
void append_label(std::string& out, const model::Span& span);

// 142us, 1.5ms, 2.50s; `open` for kNone.
void append_duration(std::string& out, std::int64_t duration_ns);

// What follows a duration that is only the host's: ` dispatch`, and the device's time if known.
void append_dispatch(std::string& out, std::int64_t device_ns);

// One mark's value: floats with four decimals, or in scientific form where four decimals would show
// nothing of them (1e-05); text as it is; True/False.
void append_value(std::string& out, const model::Mark& mark);

// The attributes of a span or mark as one line of JSON: {"lr":0.1}
void append_attrs(std::string& out, std::string_view attrs);

// Label, duration and marks; no prefix, no newline. An open span, if it is known for how long:
//   epoch[1] - running, 3.20s
// or `left open, 3.20s` if its process is gone.
void append_line(std::string& out, const model::Span& span,
                 std::span<const model::Mark* const> marks);

}  // namespace sonde::line
