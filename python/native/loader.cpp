// The iterator of a loader, which behaves as before and records every fetch.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/probe/gpu_clock.h"
#include "engine/record/stack.h"
#include "python/native/boundaries.h"
#include "python/native/callbacks.h"
#include "python/native/exceptions.h"
#include "python/native/gpu_watch.h"
#include "python/native/hooks.h"
#include "python/native/module.h"
#include "python/native/newest_batch.h"
#include "python/native/torch.h"
#include "python/native/torch_use.h"
#include "python/native/weak_list.h"

namespace sonde::native {

namespace {

using hook::Here;
using hook::Pass;
using hook::Training;

struct LoaderIterator {
  PyObject_HEAD PyObject* base;
  PyObject* loader;
  PyObject* weak_references;
  Pass* pass;
  std::uint64_t made_at;  // the sequence of the next span on its thread at that time
};

LoaderIterator* as_iterator(PyObject* object) { return reinterpret_cast<LoaderIterator*>(object); }

bool is_cuda(PyObject* object) {
  const Ref flag(PyObject_GetAttr(object, torch_names().is_cuda));
  if (!flag) drop_error();
  return flag.get() == Py_True;
}

// Has the loader put the batch on a GPU? Looks at the first parts of the batch. To be asked only
// where a GPU is in use.
SONDE_APART bool lies_on_gpu(PyObject* item) {
  constexpr Py_ssize_t kParts = 4;
  if (PyTuple_Check(item) || PyList_Check(item)) {
    const Py_ssize_t count = std::min(PySequence_Fast_GET_SIZE(item), kParts);
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (is_cuda(PySequence_Fast_GET_ITEM(item, i))) return true;
    }
    return false;
  }
  if (PyDict_Check(item)) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; i < kParts && PyDict_Next(item, &at, &key, &value); ++i) {
      if (is_cuda(value)) return true;
    }
    return false;
  }
  return is_cuda(item);
}

SONDE_COLD PyObject* end_without_item(Pass& pass) {
  const bool ended = PyErr_Occurred() == nullptr || PyErr_ExceptionMatches(PyExc_StopIteration);
  const std::string error = ended ? std::string() : exception_members();
  with_training([&](Training& training, Here here) {
    training.end_fetch(here, pass, ended ? hook::Fetched::kEnd : hook::Fetched::kError, false,
                       error);
  });
  return nullptr;
}

SONDE_HOT PyObject* iterator_next(PyObject* object) {
  LoaderIterator* self = as_iterator(object);
  const iternextfunc next = Py_TYPE(self->base)->tp_iternext;
  if (self->pass == nullptr || !hooks_in_place()) return next(self->base);
  look_for_gpu();
  with_training([&](Training& training, Here here) {
    const Pass& pass = *self->pass;
    const hook::Hint hint = pass.trains() && gradients_on()
                                ? hook::Hint::kNone
                                : evaluation_hint(here.stack, pass.fresh());
    training.begin_fetch(here, *self->pass, hint);
  });
  // After a validation, the batch that was fetched before it may still be used.
  if (NewestBatches::any() && !self->pass->fetched_off()) [[unlikely]]
    NewestBatches::drop_before(*self->pass);
  PyObject* item = next(self->base);
  if (item == nullptr) [[unlikely]]
    return end_without_item(*self->pass);
  if (self->pass->has_unused() && !self->pass->fetched_off()) [[unlikely]]
    NewestBatches::keep(*self->pass, item);
  with_training([&](Training& training, Here here) {
    training.end_fetch(here, *self->pass, hook::Fetched::kItem,
                       probe::gpu_running() && lies_on_gpu(item));
  });
  return item;
}

// A number for this loader that no other loader gets; its address may be used again after its
// death. The address itself, if the loader takes no weak reference.
const void* identity_of(PyObject* loader) {
  static auto* all = new WeakList;
  const WeakList::Entry* entry = all->note(loader);
  if (entry == nullptr) return loader;
  return reinterpret_cast<const void*>(2 * entry->number + 1);  // odd, unlike any address
}

int iterator_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as_iterator(self)->base);
  Py_VISIT(as_iterator(self)->loader);
  return 0;
}

void end_pass(LoaderIterator* self) {
  if (self->pass == nullptr) return;
  if (NewestBatches::any()) NewestBatches::drop_of(*self->pass);
  // The interpreter drops the iterator of a loop whose body raises. The exception is then added to
  // the spans that were opened in the loop.
  if (PyErr_Occurred() != nullptr) [[unlikely]]
    add_exception(exception_members(), self->made_at);
  Training::end_pass(record::this_thread(),
                     std::unique_ptr<Pass>(std::exchange(self->pass, nullptr)));
  Boundaries::tell_epoch_ends();
}

int iterator_clear(PyObject* object) {
  LoaderIterator* self = as_iterator(object);
  end_pass(self);
  Py_CLEAR(self->loader);
  return 0;  // the base iterator stays: attributes are looked up there
}

void iterator_dealloc(PyObject* object) {
  LoaderIterator* self = as_iterator(object);
  PyObject_GC_UnTrack(object);
  if (self->weak_references != nullptr) PyObject_ClearWeakRefs(object);
  iterator_clear(object);
  Py_CLEAR(self->base);
  PyObject_GC_Del(object);
}

PyObject* iterator_getattr(PyObject* object, PyObject* name) {
  PyObject* own = PyObject_GenericGetAttr(object, name);
  if (own != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
  PyErr_Clear();
  return PyObject_GetAttr(as_iterator(object)->base, name);
}

int iterator_setattr(PyObject* object, PyObject* name, PyObject* value) {
  return PyObject_SetAttr(as_iterator(object)->base, name, value);
}

Py_ssize_t iterator_length(PyObject* object) { return PyObject_Size(as_iterator(object)->base); }

PyObject* iterator_repr(PyObject* object) { return PyObject_Repr(as_iterator(object)->base); }

// Keeps isinstance(iterator, torch's own class) true.
PyObject* iterator_class(PyObject* object, void*) {
  return Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(as_iterator(object)->base)));
}

PyGetSetDef g_iterator_fields[] = {
    {"__class__", iterator_class, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PySequenceMethods g_iterator_sequence = [] {
  PySequenceMethods methods = {};
  methods.sq_length = iterator_length;
  return methods;
}();

PyTypeObject g_iterator_type = [] {
  PyTypeObject type =
      make_type("sonde._core.loader_iterator", sizeof(LoaderIterator), iterator_dealloc,
                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION);
  type.tp_repr = iterator_repr;
  type.tp_as_sequence = &g_iterator_sequence;
  type.tp_getattro = iterator_getattr;
  type.tp_setattro = iterator_setattr;
  type.tp_traverse = iterator_traverse;
  type.tp_clear = iterator_clear;
  type.tp_weaklistoffset = offsetof(LoaderIterator, weak_references);
  type.tp_iter = PyObject_SelfIter;
  type.tp_iternext = iterator_next;
  type.tp_getset = g_iterator_fields;
  return type;
}();

// How many batches the pass will have, if snapshots are taken. 0: not known.
std::uint64_t length_of(PyObject* length, PyObject* loader) {
  if (!Boundaries::snapshots_wanted()) return 0;
  const Ref batches(PyObject_CallOneArg(length, loader));
  const long long known = batches ? PyLong_AsLongLong(batches.get()) : -1;
  if (known < 0) drop_error();
  return known > 0 ? static_cast<std::uint64_t>(known) : 0;
}

// iterate_loader(original, loader, length): an iterator like original(loader) that records its
// fetches. length(loader) is the number of batches, 0 where that is not known.
PyObject* iterate_loader(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3) {
    PyErr_SetString(PyExc_TypeError, "iterate_loader(original, loader, length)");
    return nullptr;
  }
  TorchUse::note();
  const std::uint64_t now = base::monotonic_ns();
  Ref base(PyObject_CallOneArg(args[0], args[1]));
  if (!base || !PyIter_Check(base.get())) return base.release();
  record::ThreadState* thread = record::this_thread();
  record::Lane* stack = thread != nullptr ? current_stack(*thread) : nullptr;
  if (stack == nullptr || Py_TYPE(base.get()) == &g_iterator_type) return base.release();
  auto* self = PyObject_GC_New(LoaderIterator, &g_iterator_type);
  if (self == nullptr) return PyErr_Clear(), base.release();
  self->base = base.release();
  self->loader = Py_NewRef(args[1]);
  self->weak_references = nullptr;
  self->made_at = record::next_sequence(*thread);
  self->pass = new Pass({*thread, *stack}, identity_of(args[1]), now);
  self->pass->set_length(length_of(args[2], args[1]));
  PyObject_GC_Track(self);
  return reinterpret_cast<PyObject*>(self);
}

PyMethodDef g_functions[] = {
    {"iterate_loader", as_method(iterate_loader), METH_FASTCALL,
     "iterate_loader(original, loader, length)\n--\n\n"
     "What original(loader) returns, with its fetches on record. length(loader) is asked while "
     "snapshots are taken."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_loader(PyObject* torch) {
  return PyType_Ready(&g_iterator_type) == 0 && PyModule_AddFunctions(torch, g_functions) == 0;
}

}  // namespace sonde::native
