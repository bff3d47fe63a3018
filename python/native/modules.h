// The modules that the program calls.
#pragma once

#include <string_view>

#include "engine/record/lane.h"
#include "python/native/python.h"

namespace sonde::native {

// Are torch's hooks in place?
bool hooks_in_place() noexcept;

// Is the model that ran last on this stack in evaluation mode? Targets and teachers do not count.
bool last_model_evaluates(const record::Lane& stack) noexcept;

// The name of a class without its module.
std::string_view class_name(const PyTypeObject* type) noexcept;

}  // namespace sonde::native
