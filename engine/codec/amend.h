// Changes to the text of a batch that has been written already.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/id.h"

namespace sonde::codec {

// The batch with `exit_code` beside `ended_by` in the span of this session. With a status of 0,
// `ended_by` becomes "return". "": the span is not there, or does not say what ended it.
std::string with_exit_status(std::string_view batch, const base::Id& session, int status);

}  // namespace sonde::codec
