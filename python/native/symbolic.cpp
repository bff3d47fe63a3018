#include "python/native/symbolic.h"

#include <cstddef>
#include <utility>

#include "python/native/module.h"

namespace sonde::native {

SONDE_HOT_DATA constinit PyTypeObject* Symbolic::type_ = nullptr;

bool Symbolic::is(PyObject* value) noexcept {
  return value != nullptr && PyType_IsSubtype(Py_TYPE(value), type_) != 0;
}

bool Symbolic::holds(PyObject* value) noexcept {
  if (is(value)) return true;
  if (PyList_Check(value)) return PyList_GET_SIZE(value) > 0 && is(PyList_GET_ITEM(value, 0));
  if (PyTuple_Check(value)) return PyTuple_GET_SIZE(value) > 0 && is(PyTuple_GET_ITEM(value, 0));
  PyObject *key, *first;
  Py_ssize_t at = 0;
  return PyDict_Check(value) && PyDict_Next(value, &at, &key, &first) != 0 && is(first);
}

bool Symbolic::found_in(PyObject* const* args, std::size_t flagged, PyObject* keys) noexcept {
  const Py_ssize_t count = PyVectorcall_NARGS(flagged) + keyword_count(keys);
  for (Py_ssize_t i = 1; i < count; ++i) {
    if (holds(args[i])) return true;
  }
  return false;
}

void Symbolic::set_type(PyTypeObject* type) noexcept {
  Py_XINCREF(type);
  Py_XDECREF(std::exchange(type_, type));
}

namespace {

PyObject* set_keras_tensor_type(PyObject*, PyObject* type) {
  Symbolic::set_type(PyType_Check(type) ? reinterpret_cast<PyTypeObject*>(type) : nullptr);
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"set_keras_tensor_type", set_keras_tensor_type, METH_O,
     "set_keras_tensor_type(type)\n--\n\nModules called with a value of this type compute nothing, "
     "and "
     "are no forwards. None: there is no such type."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_symbolic(PyObject* torch) { return PyModule_AddFunctions(torch, g_functions) == 0; }

}  // namespace sonde::native
