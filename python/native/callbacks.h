// Calling Python from the middle of the program's own code, which must not notice.
#pragma once

#include "python/native/python.h"

namespace sonde::native {

// From then on no callback may run.
inline bool interpreter_is_ending() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Ctrl-C and what signal handlers of the program raise hit whatever Python code runs just then. If
// that is ours the program hears of it all the same, as soon as it runs again.
void pass_on() noexcept;

// The callbacks see to what goes wrong in them.
template <typename... Args>
void call(PyObject* callback, const char* format, Args... args) {
  const Ref held(Py_NewRef(callback));  // it may take itself away
  const Ref done(PyObject_CallFunction(held.get(), format, args...));
  if (!done) pass_on();
}

}  // namespace sonde::native
