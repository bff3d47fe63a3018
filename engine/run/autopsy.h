// What dead processes left behind, and its recovery; what running processes have open.
#pragma once

#include "engine/model/process.h"
#include "engine/run/source.h"

namespace sonde::run {

// Examines every process that runs or left a journal, and the newest batches. Then recovers what
// was left, unless `keep`.
model::Autopsy perform_autopsy(Source& source, bool keep);

// The processes that run, with the scopes they have open. Nothing is recovered.
model::RunningProcesses running_processes(Source& source);

}  // namespace sonde::run
