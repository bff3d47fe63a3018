// Turns a dict of Python into the engine's options for a session.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <memory>

#include "engine/base/face.h"
#include "engine/session/options.h"
#include "python/native/callbacks.h"
#include "python/native/python.h"

namespace sonde::native {

// The fields of `given` are listed in session_options.cpp. A field that is missing or unknown
// raises TypeError.
session::Options session_options(const nanobind::dict& given);

// A dict with `name` and `advice` (what to do, by the key of a message).
base::Face face_of(nanobind::handle face);

// A Python callable that any thread may own: released under the GIL.
std::shared_ptr<PyObject> share(nanobind::object callable);

// Calls into Python from a thread that the program's end does not wait for. Up to Python 3.13, a
// thread that asks for the GIL while the interpreter ends is ended by pthread_exit, whose unwinding
// would run our destructors without the GIL. The thread stops here instead and ends with the
// process.
template <typename Call>
auto call_or_stop(Call call) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    for (;;) ::pause();
  }
}

// Takes the GIL for a callback. Does nothing once the interpreter is shutting down.
template <typename Call>
void with_gil(Call call) {
  if (interpreter_is_ending()) return;
  const PyGILState_STATE state = call_or_stop([] { return PyGILState_Ensure(); });
  try {
    call();
  } catch (...) {
    PyGILState_Release(state);
    throw;
  }
  PyGILState_Release(state);
}

}  // namespace sonde::native
