// Compiled functions that train. Each call is a step, or a backward, of a loop that the program
// writes.
#pragma once

#include <cstdint>

#include "python/native/python.h"

namespace sonde::native {

// kStep: with forward, backward and update. kBackward: with forward and backward; the program
// updates elsewhere.
enum class Compiled : std::uint8_t { kStep, kBackward };

// Returns a number for end_compiled; 0: this thread does not record. `dispatch`: its time is that
// of handing work to a device.
std::uint64_t begin_compiled(PyObject* function, Compiled what, bool dispatch) noexcept;
// `completed` is false: the exception that is being raised is recorded.
void end_compiled(std::uint64_t number, bool completed) noexcept;

}  // namespace sonde::native
