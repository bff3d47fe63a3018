// What processes left behind, as text and as JSON: what is known, and what is not.
#pragma once

#include <string>

#include "engine/model/process.h"

namespace sonde::report {

std::string autopsy_text(const model::Autopsy& autopsy);
// What running processes have open, in the same form.
std::string running_text(const model::RunningProcesses& running);
std::string autopsy_json(const model::Autopsy& autopsy);

}  // namespace sonde::report
