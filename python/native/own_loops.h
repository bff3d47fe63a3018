// Steps of the program's own that are one call: forward, backward and update in it. And gradients
// that are one call: forward and backward in it.
#pragma once

#include <cstdint>

#include "engine/record/scope.h"
#include "python/native/python.h"

namespace sonde::native {

// A number for end_compiled_step; 0: this thread does not record. Dispatch: its time is that of
// handing work to a device.
std::uint64_t begin_compiled_step(PyObject* function, bool dispatch) noexcept;
// Not completed: the exception is the one that is raised right now.
void end_compiled_step(std::uint64_t number, bool completed) noexcept;

// The same for gradients. Empty: this thread does not record.
record::ScopeHandle begin_compiled_backward() noexcept;
void end_compiled_backward(const record::ScopeHandle& scope, bool completed) noexcept;

}  // namespace sonde::native
