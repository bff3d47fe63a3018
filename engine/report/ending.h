// How a span ended, in words.
#pragma once

#include <string>
#include <string_view>

#include "engine/model/ending.h"

namespace sonde::report {

// Text of the program on one line: line breaks and other control characters are replaced.
std::string on_one_line(std::string_view text);

// "RuntimeError: boom"; "" if no exception passed through it.
std::string exception_text(const model::Ending& ending);

// An unusual end: "ended by RuntimeError: boom", "exit code 3", "closed by death". "" for a span
// that ended by itself, and for a session whose program returned or ended it.
std::string ending_text(const model::Ending& ending);

// How a session ended, in any case: "returned", "ended by the program", or as ending_text().
std::string session_ending_text(const model::Ending& ending);

}  // namespace sonde::report
