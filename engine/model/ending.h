// How a span ended, in words, from its attributes.
#pragma once

#include <string>
#include <string_view>

#include "engine/model/trace.h"

namespace sonde::model {

// The text of an attribute that is a string, on one line; "" for anything else.
std::string attr_text(const Span& span, std::string_view name);

// "RuntimeError: boom"; "" if no exception passed through it.
std::string exception_of(const Span& span);

// An unusual end: "ended by RuntimeError: boom", "exit code 3", "closed by death". "" for a span
// that ended by itself, and for a session whose program returned or ended it.
std::string ending_of(const Span& span);

// How a session ended, in any case: "returned", "ended by the program", or as ending_of().
std::string how_it_ended(const Span& session);
// By an exception, a signal or an exit code that is not 0.
bool has_failed(const Span& session);

}  // namespace sonde::model
