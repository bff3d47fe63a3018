// A summary as a table: a row per name and place, parents before their children.
#pragma once

#include "engine/analysis/summary.h"
#include "engine/export/columns.h"

namespace sonde::exporting {

// rank int32, path utf8 (the names from the root down, joined by "/"), name utf8, depth int32, then
// the figures of analysis/summary_fields.h as int64?, timing utf8? ("dispatch": the durations are
// the host's only) and share_of_parent float64?.
ColumnTable make_summary_table(const analysis::Summary& summary);

}  // namespace sonde::exporting
