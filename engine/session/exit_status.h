// The exit status of the process, in the span of the session that ended with it. The interpreter
// runs its exit handlers before the status is known, so the span is written without it. When the
// process calls exit(), the file of the span is replaced by one that has it (codec/amend.h). A
// process that leaves another way (os._exit, a crash while it unwinds) never calls exit(): its span
// has no exit status.
#pragma once

#include <string>

#include "engine/base/id.h"

namespace sonde::session {

// Call it at the end of the program, once per process. `file`: the batch with that session's span.
void amend_at_exit(std::string file, const base::Id& session) noexcept;

}  // namespace sonde::session
