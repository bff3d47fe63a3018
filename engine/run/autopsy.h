// What dead processes left behind, and its recovery; what running ones have open.
#pragma once

#include "engine/model/process.h"
#include "engine/run/source.h"

namespace sonde::run {

// Looks at every process that left something, or runs, and at the newest batches. Then recovers
// what was left, unless `keep`.
model::Autopsy perform_autopsy(Source& source, bool keep);

// Only the processes that run, with the scopes they have open. Nothing is recovered.
model::Autopsy running_processes(Source& source);

}  // namespace sonde::run
