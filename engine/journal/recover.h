// Moves what dead processes left in their journals to the destination of their batches, each record
// exactly once, even if this process is killed half-way or several processes try at the same time.
#pragma once

#include <string>

#include "engine/journal/destination.h"
#include "engine/model/process.h"

namespace sonde::journal {

using model::Recovery;

// Recovers every dead journal in the folder `live`. An open scope becomes a span that ends at the
// last sign of life, with the attribute sonde.closed_by = "death". `own`: the journal of the
// caller, which is left alone. The destination knows the files that it wrote: Recovery::files stays
// empty. A journal with records that cannot be read is removed as well, since another reader would
// not find more: Recovery::damaged counts them.
Recovery recover(const std::string& live, const std::string& own, Destination& destination);

}  // namespace sonde::journal
