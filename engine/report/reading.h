// Why a run cannot be read, or not all of it, in lines that say what to do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/model/skipped.h"

namespace sonde::report {

// `directory`: as the user called it; empty: the user named none. `problem`: why it was not found.
std::string no_run_line(std::string_view directory, std::string_view problem);
std::string no_records_line(std::string_view directory);
std::string not_a_directory_line(std::string_view file);

// What was skipped, one line each, then how much that was. Empty if nothing was.
std::vector<std::string> skipped_lines(const model::Skipped& skipped);

}  // namespace sonde::report
