#include "python/native/farewell.h"

#include <utility>

#include "python/native/callbacks.h"
#include "python/native/module.h"
#include "python/native/torch.h"

namespace sonde::native {

namespace {

// Lives in the __dict__ of an optimizer, where the garbage collector sees it. It holds a list that
// the optimizer holds too, so it keeps nothing alive that the optimizer does not. torch leaves it
// out of state_dict(), of pickles and of copies.
struct Farewell {
  PyObject_HEAD PyObject* groups;  // param_groups
  void* optimizer;                 // compared only
};

struct Farewells {
  PyObject* on_gone = nullptr;
  PyObject* name = nullptr;  // of the attribute, interned
};
Farewells g_farewells;

// Runs before anything is cleared, also where the optimizer is part of a reference cycle.
void farewell_finalize(PyObject* object) {
  const auto* self = reinterpret_cast<Farewell*>(object);
  if (g_farewells.on_gone == nullptr || self->groups == nullptr || interpreter_is_ending()) return;
  const KeepError keep;
  call(g_farewells.on_gone, "NO", PyLong_FromVoidPtr(self->optimizer), self->groups);
}

int farewell_traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<Farewell*>(object)->groups);
  return 0;
}

int farewell_clear(PyObject* object) {
  Py_CLEAR(reinterpret_cast<Farewell*>(object)->groups);
  return 0;
}

void farewell_dealloc(PyObject* object) {
  if (PyObject_CallFinalizerFromDealloc(object) < 0) return;
  PyObject_GC_UnTrack(object);
  farewell_clear(object);
  PyObject_GC_Del(object);
}

// Where a class of optimizers pickles everything it has, this becomes None, which can be read
// without the profiler.
PyObject* farewell_reduce(PyObject*, PyObject*) {
  return Py_BuildValue("O()", reinterpret_cast<PyObject*>(Py_TYPE(Py_None)));
}

PyMethodDef g_methods[] = {
    {"__reduce__", farewell_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject g_type = [] {
  PyTypeObject type =
      make_type("sonde._core.farewell", sizeof(Farewell), farewell_dealloc,
                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION);
  type.tp_traverse = farewell_traverse;
  type.tp_clear = farewell_clear;
  type.tp_finalize = farewell_finalize;
  type.tp_methods = g_methods;
  return type;
}();

// The farewell in this dict, borrowed; nullptr if there is none, or if it belongs to another
// optimizer that this one is a copy of.
Farewell* find(PyObject* dict, PyObject* optimizer) {
  PyObject* found = PyDict_GetItemWithError(dict, g_farewells.name);
  if (found == nullptr || Py_TYPE(found) != &g_type) return PyErr_Clear(), nullptr;
  auto* farewell = reinterpret_cast<Farewell*>(found);
  return farewell->optimizer == optimizer ? farewell : nullptr;
}

Ref dict_of(PyObject* optimizer) {
  Ref dict(PyObject_GenericGetDict(optimizer, nullptr));
  if (!dict) PyErr_Clear();
  return dict && PyDict_Check(dict.get()) ? std::move(dict) : Ref();
}

// expect_farewell(optimizer): on_gone is called when the optimizer dies, with the param_groups that
// it has now.
PyObject* expect_farewell(PyObject*, PyObject* optimizer) {
  const Ref dict = dict_of(optimizer);
  PyObject* groups =
      dict ? PyDict_GetItemWithError(dict.get(), torch_names().param_groups) : nullptr;
  if (groups == nullptr || g_farewells.on_gone == nullptr)
    return PyErr_Clear(), Py_NewRef(Py_False);
  if (Farewell* known = find(dict.get(), optimizer)) {
    Py_XDECREF(std::exchange(known->groups, Py_NewRef(groups)));
    Py_RETURN_TRUE;
  }
  auto* self = PyObject_GC_New(Farewell, &g_type);
  if (self == nullptr) return nullptr;
  self->groups = Py_NewRef(groups);
  self->optimizer = optimizer;
  PyObject_GC_Track(self);
  const Ref held(reinterpret_cast<PyObject*>(self));
  if (PyDict_SetItem(dict.get(), g_farewells.name, held.get()) != 0) return nullptr;
  Py_RETURN_TRUE;
}

PyMethodDef g_functions[] = {
    {"expect_farewell", expect_farewell, METH_O,
     "expect_farewell(optimizer)\n--\n\nCalls on_gone when this optimizer dies. False: that is not "
     "possible."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void watch_farewells(PyObject* on_gone) noexcept {
  const Ref old(std::exchange(g_farewells.on_gone, Py_XNewRef(on_gone)));
}

void drop_farewell(PyObject* optimizer) noexcept {
  const Ref dict = dict_of(optimizer);
  if (!dict) return;
  Farewell* farewell = find(dict.get(), optimizer);
  if (farewell == nullptr) return;
  Py_CLEAR(farewell->groups);  // so that it calls nothing when it is freed
  if (PyDict_DelItem(dict.get(), g_farewells.name) != 0) PyErr_Clear();
}

bool add_farewell(PyObject* snapshots) {
  g_farewells.name = PyUnicode_InternFromString("_sonde_farewell");
  return g_farewells.name != nullptr && PyType_Ready(&g_type) == 0 &&
         PyModule_AddFunctions(snapshots, g_functions) == 0;
}

}  // namespace sonde::native
