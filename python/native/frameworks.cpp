#include "python/native/frameworks.h"

namespace sonde::native {

namespace {

PyObject* g_on_use = nullptr;

// on_torch_use(callback): called once, when torch's hook first has something to record. None:
// nobody wants to know.
PyObject* on_torch_use(PyObject*, PyObject* callback) {
  PyObject* old = g_on_use;
  g_on_use = callback == Py_None ? nullptr : Py_NewRef(callback);
  detail::g_torch_awaited = g_on_use != nullptr;
  Py_XDECREF(old);
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"on_torch_use", on_torch_use, METH_O,
     "on_torch_use(callback)\n--\n\n"
     "Calls it once, when torch's hook first has something to record; None: nobody."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

namespace detail {

bool g_torch_awaited = false;

void torch_is_used() noexcept {
  g_torch_awaited = false;
  const KeepError keep;
  const Ref callback(g_on_use);
  g_on_use = nullptr;
  const Ref done(callback ? PyObject_CallNoArgs(callback.get()) : nullptr);
  if (!done) PyErr_Clear();
}

}  // namespace detail

bool add_frameworks(PyObject* module) { return PyModule_AddFunctions(module, g_functions) == 0; }

}  // namespace sonde::native
