// What dead processes left behind, and its recovery; what running processes have open.
#pragma once

#include <cstddef>
#include <limits>

#include "engine/model/process.h"
#include "engine/run/source.h"

namespace sonde::run {

struct AutopsyOptions {
  // How many of the last closed spans of each process, of its last marks on other scopes, and of
  // the processes that ended.
  std::size_t last = std::numeric_limits<std::size_t>::max();
  bool keep = false;  // recover nothing
};

// Examines every process that runs or left a journal, and the newest batches. Then recovers what
// was left.
model::Autopsy perform_autopsy(Source& source, const AutopsyOptions& options);

// The processes that run, with the scopes they have open. Nothing is recovered.
model::RunningProcesses running_processes(Source& source);

}  // namespace sonde::run
