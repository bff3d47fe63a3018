#include "python/native/ownership.h"

#include <unordered_set>
#include <vector>

#include "engine/base/placement.h"
#include "python/native/module.h"
#include "python/native/torch.h"

namespace sonde::native {

namespace detail {
SONDE_HOT_DATA PyObject* g_latest_optimizer = nullptr;
}  // namespace detail

namespace {

struct Known {
  PyObject* reference;  // weak
  PyObject* optimizer;  // compared only
  Py_ssize_t groups;    // how many it had
};
std::vector<Known> g_optimizers;
std::unordered_set<const PyObject*> g_parameters;  // compared only
SONDE_HOT_DATA std::uint32_t g_version = 1;
bool g_some_module_owned = false;

// Keras, whose optimizers have variables around the parameters.
struct KerasNames {
  PyObject* variables = PyUnicode_InternFromString("_trainable_variables");
  PyObject* value = PyUnicode_InternFromString("_value");
};
const KerasNames& keras_names() {
  static const auto* all = new KerasNames;
  return *all;
}

// -1: it has none as we know them.
Py_ssize_t group_count(PyObject* optimizer) {
  Ref groups(PyObject_GetAttr(optimizer, torch_names().param_groups));
  if (!groups) {
    PyErr_Clear();
    groups = Ref(PyObject_GetAttr(optimizer, keras_names().variables));
  }
  if (!groups) return PyErr_Clear(), -1;
  return PyList_Check(groups.get()) ? PyList_GET_SIZE(groups.get()) : -1;
}

void add_variables(PyObject* optimizer) {
  const Ref variables(PyObject_GetAttr(optimizer, keras_names().variables));
  if (!variables) return PyErr_Clear();
  if (!PyList_Check(variables.get())) return;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(variables.get()); ++i) {
    const Ref value(PyObject_GetAttr(PyList_GET_ITEM(variables.get(), i), keras_names().value));
    if (!value) return PyErr_Clear();
    g_parameters.insert(value.get());
  }
}

void add_parameters(PyObject* optimizer) {
  const Ref groups(PyObject_GetAttr(optimizer, torch_names().param_groups));
  if (!groups) return PyErr_Clear(), add_variables(optimizer);
  if (!PyList_Check(groups.get())) return;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(groups.get()); ++i) {
    PyObject* group = PyList_GET_ITEM(groups.get(), i);
    PyObject* params = PyDict_Check(group) ? PyDict_GetItem(group, torch_names().params) : nullptr;
    if (params == nullptr || !PyList_Check(params)) continue;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(params); ++k)
      g_parameters.insert(PyList_GET_ITEM(params, k));
  }
}

// Addresses of what is gone may be another object's: the set is made anew.
void collect() {
  ++g_version;
  g_some_module_owned = false;
  g_parameters.clear();
  std::erase_if(g_optimizers, [](const Known& known) {
    PyObject* optimizer = PyWeakref_GetObject(known.reference);
    if (optimizer != nullptr && optimizer != Py_None) return add_parameters(optimizer), false;
    Py_DECREF(known.reference);
    hook::Training::forget_optimizer(known.optimizer);
    return true;
  });
  hook::Training::set_optimizers_known(!g_optimizers.empty());
}

// One of them is gone.
PyObject* optimizer_gone(PyObject*, PyObject*) {
  detail::g_latest_optimizer = nullptr;
  collect();
  Py_RETURN_NONE;
}

PyMethodDef g_gone = {"optimizer_gone", optimizer_gone, METH_O, nullptr};

enum class Found : std::uint8_t { kYes, kNo, kUnclear };

Found find_owned(PyObject* module, int& budget) {
  if (--budget < 0) return Found::kUnclear;  // a web of modules
  const Ref own(PyObject_GetAttr(module, torch_names()._parameters));
  const Ref children(own ? PyObject_GetAttr(module, torch_names()._modules) : nullptr);
  if (!children) return PyErr_Clear(), Found::kUnclear;
  // A scripted module keeps them elsewhere.
  if (!PyDict_Check(own.get()) || !PyDict_Check(children.get())) return Found::kUnclear;
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(own.get(), &at, &key, &value)) {
    if (g_parameters.contains(value)) return Found::kYes;
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

// note_optimizer(optimizer): it was made.
PyObject* note(PyObject*, PyObject* optimizer) {
  note_optimizer(optimizer);
  Py_RETURN_NONE;
}

// forget_optimizers(): the hook is taken away.
PyObject* forget_optimizers(PyObject*, PyObject*) {
  detail::g_latest_optimizer = nullptr;
  std::vector<Known> old;
  old.swap(g_optimizers);
  collect();
  for (const Known& known : old) Py_DECREF(known.reference);
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"note_optimizer", note, METH_O,
     "note_optimizer(optimizer)\n--\n\nWhat is in its param_groups is trained."},
    {"forget_optimizers", forget_optimizers, METH_NOARGS,
     "forget_optimizers()\n--\n\nNo optimizer is known any more."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void detail::note_optimizer_slow(PyObject* optimizer) noexcept {
  const KeepError keep;
  const Py_ssize_t groups = group_count(optimizer);
  if (groups < 0) return;
  for (Known& known : g_optimizers) {
    if (known.optimizer != optimizer) continue;
    if (known.groups != groups) {
      known.groups = groups;
      collect();
    }
    g_latest_optimizer = optimizer;
    return;
  }
  const Ref callback(PyCFunction_New(&g_gone, nullptr));
  PyObject* reference = callback ? PyWeakref_NewRef(optimizer, callback.get()) : nullptr;
  if (reference == nullptr) return PyErr_Clear();
  g_optimizers.push_back({reference, optimizer, groups});
  add_parameters(optimizer);
  hook::Training::set_optimizers_known(true);
  ++g_version;
  g_latest_optimizer = optimizer;
}

hook::Owned ownership_of(PyObject* module) noexcept {
  constexpr int kMostModules = 5000;
  if (g_parameters.empty()) return hook::Owned::kUnknown;
  int budget = kMostModules;
  switch (find_owned(module, budget)) {
    case Found::kYes:
      if (!g_some_module_owned) ++g_version;  // from now on others are known to be none's
      g_some_module_owned = true;
      return hook::Owned::kYes;
    case Found::kNo:
      // Where optimizers own copies (shards, master weights), no module has what they own.
      return g_some_module_owned ? hook::Owned::kNo : hook::Owned::kUnknown;
    case Found::kUnclear:
      break;
  }
  return hook::Owned::kUnknown;
}

std::uint32_t ownership_version() noexcept { return g_version; }

bool add_ownership(PyObject* torch) { return PyModule_AddFunctions(torch, g_functions) == 0; }

}  // namespace sonde::native
