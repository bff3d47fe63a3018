// What was asked for and is not there, in one line that says what is there instead.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/model/missing.h"

namespace sonde::report {

// a, b, c and 5 more
std::string some_of(const std::vector<std::string>& names);

// `directory`: what was read, as the user called it.
std::string missing_line(const model::Missing& missing, std::string_view directory);

}  // namespace sonde::report
