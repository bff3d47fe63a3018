// Journals of an output directory together with its spool: what a journal holds that the spool does
// not have yet, and moving it there.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "engine/model/process.h"

namespace sonde::spool {

// What the journal at `<output dir>/live/x.journal` says, without what is in the spool beside it.
base::Status inspect_journal(const std::string& path, model::Process& out);

// Moves every dead journal of the output directory into its spool. `own`: path of the caller's
// journal, which is left alone.
model::Recovery recover_directory(const std::string& output_dir, const std::string& own = {});

}  // namespace sonde::spool
