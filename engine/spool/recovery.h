// Journals of an output directory together with its spool: what a journal holds that the spool does
// not have yet, and moving it there.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/journal/inspect.h"
#include "engine/journal/recover.h"

namespace sonde::spool {

// What the journal at `<output dir>/live/x.journal` says, without what is in the spool beside it.
base::Status inspect_journal(const std::string& path, journal::Report& out);

struct Recovery : journal::Recovery {
  std::vector<std::string> files;  // names of the spool files that were written
};

// Moves every dead journal of the output directory into its spool. `own`: path of the caller's
// journal, which is left alone.
Recovery recover_directory(const std::string& output_dir, const std::string& own = {});

}  // namespace sonde::spool
