// What processes left behind, as text and as JSON: what is known, and what is not.
#pragma once

#include <cstddef>
#include <string>

#include "engine/model/process.h"

namespace sonde::report {

// How many of the last spans and marks of a process, and of the processes that ended, a person
// wants to see.
inline constexpr std::size_t kLastShown = 10;

std::string autopsy_text(const model::Autopsy& autopsy);
// What running processes have open, in the same form.
std::string running_text(const model::RunningProcesses& running);
std::string autopsy_json(const model::Autopsy& autopsy);

}  // namespace sonde::report
