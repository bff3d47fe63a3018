// The modules that the program calls.
#pragma once

#include "engine/record/lane.h"
#include "python/native/python.h"

namespace sonde::native {

// Is the model that ran last on this stack in evaluation mode? Models that no optimizer owns
// (targets, teachers) do not count.
bool last_model_evaluates(const record::Lane& stack) noexcept;

}  // namespace sonde::native
