#include "python/native/callbacks.h"

#include <unistd.h>

namespace sonde::native {

namespace {

int raise_now(void* exception) {
  const Ref value(static_cast<PyObject*>(exception));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value.get())), value.get());
  return -1;
}

}  // namespace

bool on_main_thread() noexcept { return ::gettid() == ::getpid(); }

void pass_on() noexcept {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Py_XDECREF(traceback);
  if (value != nullptr && Py_AddPendingCall(raise_now, value) != 0) {
    // The queue of such calls is full. A thread can always be told of one class.
    PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), type);
    Py_DECREF(value);
  }
  Py_XDECREF(type);
}

bool drop_error() noexcept {
  if (PyErr_Occurred() == nullptr) return false;
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) return pass_on(), false;
  PyErr_Clear();
  return true;
}

}  // namespace sonde::native
