// A summary as a table: a row per name and place, parents before their children.
#pragma once

#include "engine/analysis/summary.h"
#include "engine/export/columns.h"

namespace sonde::exporting {

// rank int32, path utf8 (the names from the root down, joined by "/"), name utf8, depth int32,
// count, open, open_ns, skipped, total_ns, self_ns, mean_ns, p50_ns, p95_ns, min_ns, max_ns and
// gpu_ns int64?, timing utf8? ("dispatch": the host's time only), share_of_parent float64?
ColumnTable make_summary_table(const analysis::Summary& summary);

}  // namespace sonde::exporting
