// Calling Python code of ours from within calls of the program, which must not notice.
#pragma once

#include "python/native/python.h"

namespace sonde::native {

// Once this is true no callback may run.
inline bool interpreter_is_ending() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Python runs the handlers of signals on this thread.
bool on_main_thread() noexcept;

// Ctrl-C, or an exception of a signal handler, may have been raised while a callback of ours ran.
// The exception is raised again in the program, as soon as that runs.
void pass_on() noexcept;

// For callbacks that do not handle their own errors, and wherever objects of the program are asked
// for something (an attribute, a length, a repr): deals with the exception that was raised. True:
// it was an error; it is dropped, and the caller counts it. False: it was an interrupt such as
// KeyboardInterrupt, which is passed on to the program, or nothing was raised.
bool drop_error() noexcept;

// For callbacks that handle their own errors.
template <typename... Args>
void call(PyObject* callback, const char* format, Args... args) {
  const Ref held(Py_NewRef(callback));  // it may remove itself
  const Ref done(PyObject_CallFunction(held.get(), format, args...));
  if (!done) pass_on();
}

}  // namespace sonde::native
