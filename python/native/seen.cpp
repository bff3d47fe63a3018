#include "python/native/seen.h"

#include <utility>
#include <vector>

#include "engine/base/placement.h"
#include "engine/hook/last_step.h"
#include "python/native/callbacks.h"
#include "python/native/farewell.h"
#include "python/native/module.h"
#include "python/native/parameters.h"
#include "python/native/training_call.h"
#include "python/native/weak_list.h"

namespace sonde::native {

namespace detail {
SONDE_HOT_DATA constinit std::uint64_t g_backwards = 0;
SONDE_HOT_DATA constinit std::uint64_t g_look_at = 0;
}  // namespace detail

namespace {

WeakList g_models, g_optimizers;
bool g_models_known = false;
std::uint64_t g_version = 0;  // another one whenever something was added
std::uint64_t g_pause = 1;    // backwards until gradients are looked for again
PyObject* g_on_trained = nullptr;

bool has_gradients(PyObject* module) {
  std::vector<Parameter> parameters;
  const Ref none(PySet_New(nullptr));
  if (!none || !list_parameters("", module, parameters)) return PyErr_Clear(), false;
  keep_gradients(parameters, nullptr, none.get());
  return !parameters.empty();
}

// The callback of the weak reference; its `self` is the address.
PyObject* forget_optimizer(PyObject* address, PyObject*) {
  hook::LastStep::gone(PyLong_AsVoidPtr(address));
  Py_RETURN_NONE;
}
PyMethodDef g_forget = {"forget_optimizer", forget_optimizer, METH_O, nullptr};

void met(const void* optimizer) noexcept {
  // Called in the middle of a step: no finalizer may come in between.
  const bool collecting = PyGC_Disable() != 0;
  note_known_optimizer(const_cast<PyObject*>(static_cast<const PyObject*>(optimizer)));
  if (collecting) PyGC_Enable();
}

// [(module, has run in training mode, has had a gradient)]
PyObject* seen_models(PyObject*, PyObject*) {
  Ref list(PyList_New(0));
  for (std::size_t i = 0; list && i < g_models.size(); ++i) {
    const WeakList::Entry entry = g_models[i];
    const Ref module = WeakList::get(entry);
    if (!module) continue;
    const Ref item(Py_BuildValue("OOO", module.get(), entry.trained ? Py_True : Py_False,
                                 entry.gradients ? Py_True : Py_False));
    if (!item || PyList_Append(list.get(), item.get()) != 0) return nullptr;
  }
  return list.release();
}

PyObject* model_is_known(PyObject*, PyObject*) {
  g_models_known = true;
  Py_RETURN_NONE;
}

PyObject* seen_optimizers(PyObject*, PyObject*) { return g_optimizers.alive(); }

PyObject* seen_version(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(g_version); }

PyObject* all_modules(PyObject*, PyObject*) { return living_modules(); }

PyMethodDef g_functions[] = {
    {"seen_version", seen_version, METH_NOARGS,
     "seen_version()\n--\n\nAnother number whenever another model or optimizer is known."},
    {"living_modules", all_modules, METH_NOARGS,
     "living_modules()\n--\n\nEvery torch module of the process."},
    {"model_is_known", model_is_known, METH_NOARGS,
     "model_is_known()\n--\n\nThere is something to take snapshots of."},
    {"seen_models", seen_models, METH_NOARGS,
     "seen_models()\n--\n\nThe models that were called and are alive: (module, has it run in "
     "training mode, has it had a gradient)."},
    {"seen_optimizers", seen_optimizers, METH_NOARGS,
     "seen_optimizers()\n--\n\nThe optimizers that are known and alive."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void detail::look_for_gradients() noexcept {
  const KeepError keep;
  bool missing = false;
  for (std::size_t i = 0; i < g_models.size(); ++i) {
    if (g_models[i].gradients) continue;
    const Ref module = WeakList::get(g_models[i]);
    if (!module) continue;
    if (!has_gradients(module.get())) {
      missing = true;
      continue;
    }
    if (WeakList::Entry* entry = g_models.note(module.get())) entry->gradients = true;
    if (g_on_trained != nullptr) call(g_on_trained, "O", module.get());
  }
  g_look_at = missing ? g_backwards + g_pause : 0;
  g_pause *= 2;
}

void note_model(PyObject* module, bool training) noexcept {
  g_models_known = true;
  WeakList::Entry* entry = g_models.note(module);
  if (entry == nullptr) return;
  entry->trained = entry->trained || training;
  if (!std::exchange(entry->fresh, false)) return;
  ++g_version;
  g_pause = 1;
  detail::g_look_at = detail::g_backwards + 1;
}

void note_known_optimizer(PyObject* optimizer) noexcept {
  const KeepError keep;
  const Ref address(PyLong_FromVoidPtr(optimizer));
  const Ref gone(address ? PyCFunction_New(&g_forget, address.get()) : nullptr);
  if (!gone) return PyErr_Clear();
  WeakList::Entry* entry = g_optimizers.note(optimizer, gone.get());
  if (entry != nullptr && std::exchange(entry->fresh, false)) ++g_version;
}

bool models_known() noexcept { return g_models_known; }

void watch_seen(PyObject* on_trained, PyObject* on_gone) noexcept {
  hook::LastStep::on_met(on_trained != nullptr ? met : nullptr);
  const Ref old(std::exchange(g_on_trained, Py_XNewRef(on_trained)));
  if (const Ref optimizers(g_optimizers.alive()); !optimizers) {
    PyErr_Clear();
  } else {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(optimizers.get()); ++i)
      drop_farewell(PyList_GET_ITEM(optimizers.get(), i));
  }
  watch_farewells(on_gone);
  g_models_known = false;
  detail::g_look_at = 0;
  g_models.clear();
  g_optimizers.clear();
}

bool add_seen(PyObject* snapshots) { return PyModule_AddFunctions(snapshots, g_functions) == 0; }

}  // namespace sonde::native
