// Recovery as a reader of runs asks for it. A session recovers too, so the code is in engine/spool.
#pragma once

#include "engine/spool/recovery.h"

namespace sonde::run {

using spool::inspect_journal;
using spool::recover_directory;
using spool::Recovery;

}  // namespace sonde::run
