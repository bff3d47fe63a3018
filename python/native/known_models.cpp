#include "python/native/known_models.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "engine/base/placement.h"
#include "engine/hook/last_step.h"
#include "python/native/callbacks.h"
#include "python/native/farewell.h"
#include "python/native/module.h"
#include "python/native/parameters.h"

namespace sonde::native {

SONDE_HOT_DATA constinit KnownModels::Backwards KnownModels::backwards_;
KnownModels* const KnownModels::one_ = new KnownModels;

namespace {

bool has_gradients(PyObject* module) {
  std::vector<Parameter> parameters;
  const Ref none(PySet_New(nullptr));
  if (!none || !list_parameters("", module, parameters)) return drop_error(), false;
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
  // Called in the middle of a step: no finalizer may run now.
  const bool collecting = PyGC_Disable() != 0;
  KnownModels::instance().note_optimizer(
      const_cast<PyObject*>(static_cast<const PyObject*>(optimizer)));
  if (collecting) PyGC_Enable();
}

PyObject* seen_models(PyObject*, PyObject*) { return KnownModels::instance().models(); }

PyObject* note_model_exists(PyObject*, PyObject*) {
  KnownModels::instance().note_model_exists();
  Py_RETURN_NONE;
}

PyObject* seen_optimizers(PyObject*, PyObject*) { return KnownModels::instance().optimizers(); }

PyObject* seen_version(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(KnownModels::instance().version());
}

PyMethodDef g_functions[] = {
    {"seen_version", seen_version, METH_NOARGS,
     "seen_version()\n--\n\nA number that changes whenever a model or an optimizer is added."},
    {"note_model_exists", note_model_exists, METH_NOARGS,
     "note_model_exists()\n--\n\nThere is a model to take snapshots of."},
    {"seen_models", seen_models, METH_NOARGS,
     "seen_models()\n--\n\nThe models that were called and are alive: (module, has it run in "
     "training mode, has it had a gradient)."},
    {"seen_optimizers", seen_optimizers, METH_NOARGS,
     "seen_optimizers()\n--\n\nThe optimizers that are known and alive."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* KnownModels::models() {
  Ref list(PyList_New(0));
  for (std::size_t i = 0; list && i < models_.size(); ++i) {
    const WeakList::Entry entry = models_[i];
    const Ref module = WeakList::get(entry);
    if (!module) continue;
    const Ref item(Py_BuildValue("OOO", module.get(), entry.trained ? Py_True : Py_False,
                                 entry.gradients ? Py_True : Py_False));
    if (!item || PyList_Append(list.get(), item.get()) != 0) return nullptr;
  }
  return list.release();
}

void KnownModels::look_for_gradients() noexcept {
  const KeepError keep;
  KnownModels& self = instance();
  bool missing = false;
  for (std::size_t i = 0; i < self.models_.size(); ++i) {
    if (self.models_[i].gradients) continue;
    const Ref module = WeakList::get(self.models_[i]);
    if (!module) continue;
    if (!has_gradients(module.get())) {
      missing = true;
      continue;
    }
    if (WeakList::Entry* entry = self.models_.note(module.get())) entry->gradients = true;
    if (self.on_trained_ != nullptr) call(self.on_trained_, "O", module.get());
  }
  backwards_.look_at = missing ? backwards_.count + self.pause_ : 0;
  self.pause_ *= 2;
}

void KnownModels::note_model(PyObject* module, bool training) noexcept {
  any_ = true;
  WeakList::Entry* entry = models_.note(module);
  if (entry == nullptr) return;
  entry->trained = entry->trained || training;
  if (!std::exchange(entry->fresh, false)) return;
  ++version_;
  pause_ = 1;
  backwards_.look_at = backwards_.count + 1;
}

void KnownModels::note_optimizer(PyObject* optimizer) noexcept {
  const KeepError keep;
  const Ref address(PyLong_FromVoidPtr(optimizer));
  const Ref gone(address ? PyCFunction_New(&g_forget, address.get()) : nullptr);
  if (!gone) return PyErr_Clear();
  WeakList::Entry* entry = optimizers_.note(optimizer, gone.get());
  if (entry != nullptr && std::exchange(entry->fresh, false)) ++version_;
}

void KnownModels::listen(PyObject* on_trained, PyObject* on_gone) noexcept {
  hook::LastStep::on_met(on_trained != nullptr ? met : nullptr);
  const Ref old(std::exchange(on_trained_, Py_XNewRef(on_trained)));
  if (const Ref alive(optimizers_.alive()); !alive) {
    PyErr_Clear();
  } else {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(alive.get()); ++i)
      drop_farewell(PyList_GET_ITEM(alive.get(), i));
  }
  watch_farewells(on_gone);
  any_ = false;
  backwards_.look_at = 0;
  models_.clear();
  optimizers_.clear();
}

bool add_known_models(PyObject* snapshots) {
  return PyModule_AddFunctions(snapshots, g_functions) == 0;
}

}  // namespace sonde::native
