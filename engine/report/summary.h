// A summary as an aligned table, and the same as JSON.
#pragma once

#include <string>

#include "engine/analysis/summary.h"

namespace sonde::report {

// One row per name and place, longest first below each parent. Columns that would hold nothing (GPU
// time, open spans) are left out. Ends with notes on what the figures leave out.
std::string summary_text(const analysis::Summary& summary);

// The table of summary_text for a browser, with the notes below it.
std::string summary_html(const analysis::Summary& summary);

std::string summary_json(const analysis::Summary& summary);

}  // namespace sonde::report
