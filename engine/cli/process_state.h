// What a journal says, in the form that reports take.
#pragma once

#include "engine/report/autopsy.h"
#include "engine/spool/journal.h"

namespace sonde::cli {

// Points into the journal's report.
report::ProcessState process_state(const spool::JournalReport& journal);

}  // namespace sonde::cli
