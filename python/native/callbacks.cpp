#include "python/native/callbacks.h"

namespace sonde::native {

namespace {

int raise_now(void* exception) {
  const Ref value(static_cast<PyObject*>(exception));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value.get())), value.get());
  return -1;
}

}  // namespace

void pass_on() noexcept {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  if (value != nullptr && Py_AddPendingCall(raise_now, value) != 0) Py_DECREF(value);
}

bool drop_error() noexcept {
  if (PyErr_Occurred() == nullptr) return false;
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) return pass_on(), false;
  PyErr_Clear();
  return true;
}

}  // namespace sonde::native
