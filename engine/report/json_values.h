// Trace values inside the JSON of several reports.
#pragma once

#include "engine/model/json_values.h"

namespace sonde::report {

using model::write_optional;
using model::write_value;

}  // namespace sonde::report
