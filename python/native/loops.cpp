// epochs(iterable) and batches(iterable): transparent iterators with a scope around each turn.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/base/level_names.h"
#include "engine/record/names.h"
#include "engine/record/scope.h"
#include "python/native/boundaries.h"
#include "python/native/callbacks.h"
#include "python/native/exceptions.h"
#include "python/native/hooks.h"
#include "python/native/module.h"
#include "python/native/stack.h"
#include "python/native/torch.h"

namespace sonde::native {

namespace {

struct Loop {
  PyObject_HEAD PyObject* iterable;
  PyObject* iterator;  // nullptr before the first turn and after the last
  record::ScopeHandle handle;
  std::int64_t next_index;
  std::int64_t length;  // of the iterable, if it has one and snapshots are taken; else -1
  std::uint32_t name;
  bool started;
  bool timed;  // a DataLoader: the time of each fetch is recorded
};

constexpr std::size_t kModulePrefix = std::string_view("sonde._core.").size();

// Names of scopes, interned.
struct Names {
  std::uint32_t epoch = 0, batch = 0;
};
Names g_level_names;

Loop* as_loop(PyObject* object) { return reinterpret_cast<Loop*>(object); }

void close_turn(Loop* self, std::string_view attrs = {}) noexcept {
  if (!self->handle) return;
  const record::ScopeHandle handle = self->handle;
  self->handle = {};
  record::ThreadState* thread = record::closing_thread(handle.generation);
  if (thread == nullptr) return;
  record::close_scope(*thread, handle, {.replace_attrs = !attrs.empty(), .attrs = attrs},
                      base::monotonic_ns());
  stack_changed(*thread, *handle.stack);
  if (self->name == g_level_names.epoch && Boundaries::snapshots_wanted())
    Boundaries::instance().epoch_closed(handle.sequence, self->next_index - 1);
}

void open_turn(Loop* self, std::uint64_t fetch_ns) noexcept {
  const std::int64_t index = self->next_index++;
  record::ThreadState* thread = record::this_thread();
  if (thread == nullptr) return;
  record::Lane* stack = current_stack(*thread);
  if (stack == nullptr) return record::count_laneless(false);
  record::ScopeStart start;
  start.name = self->name;
  start.index = index;
  start.flags =
      static_cast<std::uint8_t>(record::kHasIndex | (self->timed ? record::kHasDataLoad : 0));
  start.aux = fetch_ns;
  self->handle = record::open_scope(*thread, *stack, start);
  stack_changed(*thread, *stack);
  if (self->name == g_level_names.batch && Boundaries::snapshots_wanted())
    hook::Training::of({*thread, *stack}).begin_turn(index, self->next_index == self->length);
}

// Not for loaders: their hook asks for the length.
std::int64_t length_of(PyObject* iterable) {
  const Py_ssize_t length = PyObject_Size(iterable);
  if (length < 0) drop_error();
  return length;
}

bool begin(Loop* self) {
  self->started = true;
  self->timed = self->name == g_level_names.batch && is_data_loader(self->iterable);
  if (self->name == g_level_names.batch && !self->timed && Boundaries::snapshots_wanted())
    self->length = length_of(self->iterable);
  self->iterator = PyObject_GetIter(self->iterable);
  return self->iterator != nullptr;
}

PyObject* loop_next(PyObject* object) {
  Loop* self = as_loop(object);
  close_turn(self);
  if (!self->started && !begin(self)) return nullptr;
  if (self->iterator == nullptr) return nullptr;
  const std::uint64_t before = self->timed ? base::monotonic_ns() : 0;
  // The fetch runs user code, which may close this very loop.
  const Ref held(Py_NewRef(self->iterator));
  const StepClaim claim(self->name == g_level_names.batch);
  PyObject* item = Py_TYPE(held.get())->tp_iternext(held.get());
  if (item == nullptr) {
    Py_CLEAR(self->iterator);
    return nullptr;
  }
  open_turn(self, self->timed ? base::monotonic_ns() - before : 0);
  return item;
}

PyObject* loop_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"iterable", nullptr};
  PyObject* iterable = nullptr;
  const char* format = type->tp_name[kModulePrefix] == 'e' ? "O:epochs" : "O:batches";
  if (!PyArg_ParseTupleAndKeywords(args, keywords, format, const_cast<char**>(names), &iterable))
    return nullptr;
  Loop* self = PyObject_GC_New(Loop, type);
  if (self == nullptr) return nullptr;
  self->iterable = Py_NewRef(iterable);
  self->iterator = nullptr;
  self->handle = {};
  self->next_index = 0;
  self->length = -1;
  self->name = type->tp_name[kModulePrefix] == 'e' ? g_level_names.epoch : g_level_names.batch;
  self->started = self->timed = false;
  PyObject_GC_Track(self);
  return reinterpret_cast<PyObject*>(self);
}

int loop_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as_loop(self)->iterable);
  Py_VISIT(as_loop(self)->iterator);
  return 0;
}

int loop_clear(PyObject* self) {
  Py_CLEAR(as_loop(self)->iterable);
  Py_CLEAR(as_loop(self)->iterator);
  return 0;
}

// After `break`, `return` or an exception in the body the interpreter drops the iterator. An
// exception is still being raised then.
void loop_dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  close_turn(as_loop(object), exception_members());
  loop_clear(object);
  PyObject_GC_Del(object);
}

PyObject* loop_close(PyObject* object, PyObject*) {
  Loop* self = as_loop(object);
  close_turn(self);
  self->started = true;
  Py_CLEAR(self->iterator);
  Py_RETURN_NONE;
}

Py_ssize_t loop_length(PyObject* self) { return PyObject_Size(as_loop(self)->iterable); }

PyObject* loop_length_hint(PyObject* self, PyObject*) {
  const Loop* loop = as_loop(self);
  const Py_ssize_t hint =
      PyObject_LengthHint(loop->iterator != nullptr ? loop->iterator : loop->iterable, 0);
  return hint < 0 ? nullptr
                  : PyLong_FromSsize_t(loop->started && loop->iterator == nullptr ? 0 : hint);
}

PyMethodDef g_methods[] = {
    {"close", loop_close, METH_NOARGS, "End the loop and its open scope."},
    {"__length_hint__", loop_length_hint, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PySequenceMethods g_sequence = [] {
  PySequenceMethods methods = {};
  methods.sq_length = loop_length;
  return methods;
}();

PyTypeObject make_loop_type(const char* name, const char* doc) {
  PyTypeObject type =
      make_type(name, sizeof(Loop), loop_dealloc, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC);
  type.tp_as_sequence = &g_sequence;
  type.tp_doc = doc;
  type.tp_traverse = loop_traverse;
  type.tp_clear = loop_clear;
  type.tp_iter = PyObject_SelfIter;
  type.tp_iternext = loop_next;
  type.tp_methods = g_methods;
  type.tp_new = loop_new;
  return type;
}

PyTypeObject g_epochs_type = make_loop_type(
    "sonde._core.epochs",
    "epochs(iterable)\n--\n\nYield every item unchanged, with an `epoch` scope around each turn.");
PyTypeObject g_batches_type = make_loop_type(
    "sonde._core.batches",
    "batches(iterable)\n--\n\nYield every item unchanged, with a `batch` scope around each turn.");

}  // namespace

bool add_loops(PyObject* core) {
  g_level_names.epoch = record::intern(base::kEpoch);
  g_level_names.batch = record::intern(base::kBatch);
  if (PyType_Ready(&g_epochs_type) != 0 || PyType_Ready(&g_batches_type) != 0) return false;
  return PyModule_AddObjectRef(core, "epochs", reinterpret_cast<PyObject*>(&g_epochs_type)) == 0 &&
         PyModule_AddObjectRef(core, "batches", reinterpret_cast<PyObject*>(&g_batches_type)) == 0;
}

}  // namespace sonde::native
