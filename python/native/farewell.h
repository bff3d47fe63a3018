// The last look at what an optimizer owns. A program whose model and optimizer are local to a
// function has neither when the session ends; but the epoch that is open then has been trained.
#pragma once

#include "python/native/python.h"

namespace sonde::native {

// Whom to tell that an optimizer with a farewell has died: on_gone(its id, its param_groups), in
// the middle of anything, on any thread. nullptr: nobody.
void watch_farewells(PyObject* on_gone) noexcept;
// Takes the farewell off again.
void drop_farewell(PyObject* optimizer) noexcept;

bool add_farewell(PyObject* module);

}  // namespace sonde::native
