// The exit status of the process, in the span of the session that ended with it. The interpreter
// runs its exit handlers before the status is known, so the span is written without it, and its
// file is replaced by one that has it when the process calls exit(). A process that leaves
// another way (os._exit, a crash while it unwinds) never calls it: the span stays without.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/id.h"

namespace sonde::session {

// `file`: the batch with the span of that session. At the end of the program, once per process.
void amend_at_exit(std::string file, const base::Id& session) noexcept;

// The batch with `exit_code` beside `ended_by` in that span. With a status of 0, `ended_by` becomes
// "return". "": the span is not there, or does not say what ended it.
std::string with_exit_status(std::string_view batch, const base::Id& session, int status);

}  // namespace sonde::session
