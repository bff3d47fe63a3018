// Captures what an optimizer owns when the optimizer dies. A program whose model and optimizer are
// local to a function has neither when the session ends, but its last epoch is to be captured.
#pragma once

#include "python/native/python.h"

namespace sonde::native {

// When an optimizer with a farewell dies, on_gone(its id, its param_groups) is called, at any time
// and on any thread. nullptr: nothing is called.
void watch_farewells(PyObject* on_gone) noexcept;
// Removes the farewell of this optimizer.
void drop_farewell(PyObject* optimizer) noexcept;

}  // namespace sonde::native
