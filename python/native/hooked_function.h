// A Python function whose calls go through a function of ours. The function object stays the same,
// so that Dynamo, which compares it, sees no change. Only its vectorcall is replaced.
#pragma once

#include "python/native/python.h"

namespace sonde::native {

inline void set_vectorcall(PyObject* function, vectorcallfunc call) noexcept {
#if PY_VERSION_HEX >= 0x030C0000
  PyFunction_SetVectorcall(reinterpret_cast<PyFunctionObject*>(function), call);
#else
  reinterpret_cast<PyFunctionObject*>(function)->vectorcall = call;
#endif
}

struct HookedFunction {
  PyObject* function = nullptr;  // owned
  vectorcallfunc original = nullptr;

  // `wanted` is a Python function, and nothing is hooked.
  void hook(PyObject* wanted, vectorcallfunc ours) noexcept {
    function = Py_NewRef(wanted);
    original = PyVectorcall_Function(wanted);
    set_vectorcall(function, ours);
  }
  // Another tool may have put its function there since. That one calls ours, which then only calls
  // `original`.
  void unhook(vectorcallfunc ours) noexcept {
    if (PyVectorcall_Function(function) == ours) set_vectorcall(function, original);
    Py_CLEAR(function);
  }
};

}  // namespace sonde::native
