#include "python/native/ownership.h"

#include <utility>

#include "engine/base/placement.h"
#include "python/native/callbacks.h"
#include "python/native/module.h"
#include "python/native/torch.h"

namespace sonde::native {

SONDE_HOT_DATA constinit Ownership::Hot Ownership::hot_;
Ownership* const Ownership::one_ = new Ownership;

namespace {

// Names in Keras, whose optimizers have variables around the parameters.
struct KerasNames {
  PyObject* variables = PyUnicode_InternFromString("_trainable_variables");
  PyObject* value = PyUnicode_InternFromString("_value");
};
const KerasNames& keras_names() {
  static const auto* all = new KerasNames;
  return *all;
}

// -1: it has no groups, or not in a form that is known here.
Py_ssize_t group_count(PyObject* optimizer) {
  Ref groups(PyObject_GetAttr(optimizer, torch_names().param_groups));
  if (!groups) {
    drop_error();
    groups = Ref(PyObject_GetAttr(optimizer, keras_names().variables));
  }
  if (!groups) return drop_error(), -1;
  return PyList_Check(groups.get()) ? PyList_GET_SIZE(groups.get()) : -1;
}

// The callback of the weak references.
PyObject* optimizer_gone(PyObject*, PyObject*) {
  Ownership::instance().collect();
  Py_RETURN_NONE;
}
PyMethodDef g_gone = {"optimizer_gone", optimizer_gone, METH_O, nullptr};

PyObject* note_optimizer(PyObject*, PyObject* optimizer) {
  Ownership::note_optimizer(optimizer);
  Py_RETURN_NONE;
}

PyObject* forget_optimizers(PyObject*, PyObject*) {
  Ownership::instance().forget_all();
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"note_optimizer", note_optimizer, METH_O,
     "note_optimizer(optimizer)\n--\n\nWhat is in its param_groups is trained."},
    {"forget_optimizers", forget_optimizers, METH_NOARGS,
     "forget_optimizers()\n--\n\nNo optimizer is known any more."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void Ownership::add_variables(PyObject* optimizer) {
  const Ref variables(PyObject_GetAttr(optimizer, keras_names().variables));
  if (!variables) {
    drop_error();
    return;
  }
  if (!PyList_Check(variables.get())) return;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(variables.get()); ++i) {
    const Ref value(PyObject_GetAttr(PyList_GET_ITEM(variables.get(), i), keras_names().value));
    if (!value) {
      drop_error();
      return;
    }
    parameters_.insert(value.get());
  }
}

void Ownership::add_parameters(PyObject* optimizer) {
  const Ref groups(PyObject_GetAttr(optimizer, torch_names().param_groups));
  if (!groups) return drop_error(), add_variables(optimizer);
  if (!PyList_Check(groups.get())) return;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(groups.get()); ++i) {
    PyObject* group = PyList_GET_ITEM(groups.get(), i);
    PyObject* params = PyDict_Check(group) ? PyDict_GetItem(group, torch_names().params) : nullptr;
    if (params == nullptr || !PyList_Check(params)) continue;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(params); ++k)
      parameters_.insert(PyList_GET_ITEM(params, k));
  }
}

void Ownership::collect() {
  hot_.latest = nullptr;
  ++hot_.version;
  some_module_owned_ = false;
  parameters_.clear();
  std::vector<Ref> living;
  std::erase_if(optimizers_, [&living](const Known& known) {
    if (Ref optimizer = weak_target(known.reference)) {
      living.push_back(std::move(optimizer));
      return false;
    }
    Py_DECREF(known.reference);
    hook::Training::forget_optimizer(known.optimizer);
    return true;
  });
  hook::Training::set_optimizers_known(!optimizers_.empty());
  // Last: asking an optimizer may run code that calls this again.
  for (const Ref& optimizer : living) add_parameters(optimizer.get());
}

void Ownership::forget_all() {
  std::vector<Known> old;
  old.swap(optimizers_);
  collect();
  for (const Known& known : old) Py_DECREF(known.reference);
}

Ownership::Found Ownership::find_owned(PyObject* module, int& budget) const {
  if (--budget < 0) return Found::kUnclear;  // too many modules
  const Ref own(PyObject_GetAttr(module, torch_names()._parameters));
  const Ref children(own ? PyObject_GetAttr(module, torch_names()._modules) : nullptr);
  if (!children) return drop_error(), Found::kUnclear;
  // A scripted module keeps them elsewhere.
  if (!PyDict_Check(own.get()) || !PyDict_Check(children.get())) return Found::kUnclear;
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(own.get(), &at, &key, &value)) {
    if (parameters_.contains(value)) return Found::kYes;
  }
  at = 0;
  Found found = Found::kNo;
  while (PyDict_Next(children.get(), &at, &key, &value)) {
    if (value == Py_None) continue;
    const Found below = find_owned(value, budget);
    if (below == Found::kYes) return below;
    if (below == Found::kUnclear) found = below;
  }
  return found;
}

void Ownership::note_another(PyObject* optimizer) noexcept { instance().learn(optimizer); }

void Ownership::learn(PyObject* optimizer) noexcept {
  const KeepError keep;
  const Py_ssize_t groups = group_count(optimizer);
  if (groups < 0) return;
  for (Known& known : optimizers_) {
    if (known.optimizer != optimizer) continue;
    if (known.groups != groups) {
      known.groups = groups;
      collect();
    }
    hot_.latest = optimizer;
    return;
  }
  const Ref callback(PyCFunction_New(&g_gone, nullptr));
  PyObject* reference = callback ? PyWeakref_NewRef(optimizer, callback.get()) : nullptr;
  if (reference == nullptr) return PyErr_Clear();
  optimizers_.push_back({reference, optimizer, groups});
  add_parameters(optimizer);
  hook::Training::set_optimizers_known(true);
  ++hot_.version;
  hot_.latest = optimizer;
}

hook::Owned Ownership::of(PyObject* module) noexcept {
  constexpr int kMostModules = 5000;
  if (parameters_.empty()) return hook::Owned::kUnknown;
  int budget = kMostModules;
  switch (find_owned(module, budget)) {
    case Found::kYes:
      if (!some_module_owned_) ++hot_.version;  // from now on kNo is an answer for others
      some_module_owned_ = true;
      return hook::Owned::kYes;
    case Found::kNo:
      // Where optimizers own copies (shards, master weights), no module has what they own.
      return some_module_owned_ ? hook::Owned::kNo : hook::Owned::kUnknown;
    case Found::kUnclear:
      break;
  }
  return hook::Owned::kUnknown;
}

bool add_ownership(PyObject* torch) { return PyModule_AddFunctions(torch, g_functions) == 0; }

}  // namespace sonde::native
