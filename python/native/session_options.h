// What Python says about a session, as the engine's options.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include "engine/base/face.h"
#include "engine/session/options.h"
#include "python/native/python.h"

namespace sonde::native {

// The fields of `given` are listed in session_options.cpp. A field that is missing or unknown
// raises TypeError.
session::Options session_options(const nanobind::dict& given);

// (name, what to do by the key of a message)
base::Face face_of(nanobind::handle face);

bool interpreter_is_ending() noexcept;

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

// Takes the GIL for a callback; nothing happens once the interpreter is on its way out.
template <typename Call>
void with_gil(Call call) {
  if (interpreter_is_ending()) return;
  const PyGILState_STATE state = call_or_stop([] { return PyGILState_Ensure(); });
  call();
  PyGILState_Release(state);
}

}  // namespace sonde::native
