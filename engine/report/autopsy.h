// What processes left behind, as text and as JSON. It says what is known and what is not.
#pragma once

#include <string>

#include "engine/model/process.h"

namespace sonde::report {

std::string autopsy_text(const model::Autopsy& autopsy);
std::string autopsy_json(const model::Autopsy& autopsy);

}  // namespace sonde::report
