// Closed spans as lines, for output="stdout".
#pragma once

#include <string>
#include <vector>

#include "engine/model/trace.h"

namespace sonde::session {

// Each span of `batch` with its newest marks, whether they came with it or `earlier`.
std::vector<std::string> lines_of(const model::Batch& batch, const model::Batch& earlier);

}  // namespace sonde::session
