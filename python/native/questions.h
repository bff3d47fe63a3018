// Asks objects of the program for something, and never raises. An interrupt that comes meanwhile is
// passed on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "python/native/callbacks.h"
#include "python/native/python.h"

namespace sonde::native {

// An attribute; empty where there is none.
inline Ref ask(PyObject* object, PyObject* name) noexcept {
  Ref found(PyObject_GetAttr(object, name));
  if (!found) drop_error();
  return found;
}

// The result of a method without arguments; empty where it raises.
inline Ref ask_method(PyObject* object, PyObject* method) noexcept {
  Ref found(PyObject_CallMethodNoArgs(object, method));
  if (!found) drop_error();
  return found;
}

inline bool says_true(PyObject* object, PyObject* method) noexcept {
  return ask_method(object, method).get() == Py_True;
}

// Is it a tuple of `count` integers that fit? Then they are in `out`.
inline bool integers(PyObject* tuple, std::int64_t* out, std::size_t count) noexcept {
  if (tuple == nullptr || !PyTuple_Check(tuple) ||
      static_cast<std::size_t>(PyTuple_GET_SIZE(tuple)) != count)
    return false;
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, static_cast<Py_ssize_t>(i)));
    if (out[i] == -1 && PyErr_Occurred() != nullptr) return PyErr_Clear(), false;
  }
  return true;
}

}  // namespace sonde::native
