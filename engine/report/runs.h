// Runs that share a directory, in words.
#pragma once

#include <optional>
#include <string>

#include "engine/model/runs.h"

namespace sonde::report {

// run 2 of 3, of 2026-11-15 10:53:57.250 UTC, pid 4711
// Without the numbers if not all runs were read.
std::string run_heading(const model::RunPart& part, const model::Runs& runs, bool numbered);

// One line that says how many runs are added up, and how to see one; "" for a single run.
std::string added_up_line(const model::Runs& runs, std::optional<int> rank);

}  // namespace sonde::report
