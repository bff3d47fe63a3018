// Runs that share a directory, in words.
#pragma once

#include <cstddef>
#include <string>

#include "engine/analysis/summary.h"
#include "engine/model/runs.h"

namespace sonde::report {

// run 2 of 3, of 2026-11-15 10:53:57.250 UTC, pid 4711
// Without the numbers if not all runs were read.
std::string run_heading(const model::RunPart& part, const model::Runs& runs, bool numbered);

// One line that says how many runs a summary adds up, and how to see one; "" for a single run, and
// for a summary of nothing.
std::string added_up_line(const analysis::Summary& summary, std::size_t runs);

}  // namespace sonde::report
