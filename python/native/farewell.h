// The last look at what an optimizer owns. A program whose model and optimizer are local to a
// function has neither when the session ends; but the epoch that is open then has been trained.
#pragma once

#include "python/native/python.h"

namespace sonde::native {

// When an optimizer with a farewell dies, on_gone(its id, its param_groups) is called, in the
// middle of anything, on any thread. nullptr: nothing is called.
void watch_farewells(PyObject* on_gone) noexcept;
// Takes the farewell off again.
void drop_farewell(PyObject* optimizer) noexcept;

}  // namespace sonde::native
