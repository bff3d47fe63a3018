// Compiled functions that train, each call of which is a step of the program's own.
#pragma once

#include <cstdint>

#include "python/native/python.h"

namespace sonde::native {

// kStep: forward, backward and update are in it. kBackward: forward and backward are, and the
// program updates elsewhere.
enum class Compiled : std::uint8_t { kStep, kBackward };

// A number for end_compiled; 0: this thread does not record. Dispatch: its time is that of handing
// work to a device.
std::uint64_t begin_compiled(PyObject* function, Compiled what, bool dispatch) noexcept;
// Not completed: the exception is the one that is raised right now.
void end_compiled(std::uint64_t number, bool completed) noexcept;

}  // namespace sonde::native
