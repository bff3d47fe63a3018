// Lines on running processes. Each begins with the API that the session was started from:
//   [api] rank 1 epoch[0] - 142us {epoch_loss=0.5234}
#pragma once

#include <string>
#include <string_view>

#include "engine/model/live.h"

namespace sonde::report {

std::string live_line(const model::LiveSpan& span, bool several_ranks);

// That a process runs, has ended, or died, and what to do then. `directory`: as the user called it.
std::string process_line(const model::ProcessEvent& event, std::string_view directory);

std::string nothing_running_line(std::string_view directory);

// That the directory was removed while its processes were followed.
std::string directory_gone_line(std::string_view directory);

}  // namespace sonde::report
