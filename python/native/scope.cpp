// scope(name, index=None, **attrs): the context manager, which is also the live span object.
#include "python/native/scope.h"

#include <cstddef>
#include <vector>

#include "engine/probe/device_queue.h"
#include "engine/probe/gpu_clock.h"
#include "engine/record/ends.h"
#include "python/native/attrs.h"
#include "python/native/boundaries.h"
#include "python/native/exceptions.h"
#include "python/native/hooks.h"
#include "python/native/names.h"
#include "python/native/session.h"
#include "python/native/stack.h"

namespace sonde::native {

namespace {

constexpr std::size_t kFreeListSize = 64;
Scope* g_free[kFreeListSize];
std::size_t g_free_count = 0;

PyObject* call_scope(PyObject* self, PyObject* const* args, std::size_t flagged, PyObject* keys);

Scope* allocate() {
  if (g_free_count > 0) {
    Scope* self = g_free[--g_free_count];
    PyObject_Init(reinterpret_cast<PyObject*>(self), &g_scope_type);
    return self;
  }
  return PyObject_GC_New(Scope, &g_scope_type);
}

bool set_index(Scope* self, PyObject* index) {
  self->has_index = index != Py_None;
  self->index = 0;
  if (!self->has_index) return true;
  if (!PyIndex_Check(index)) {
    PyErr_Format(PyExc_TypeError, "scope() index must be an int or None, not %.100s",
                 Py_TYPE(index)->tp_name);
    return false;
  }
  const Ref number(PyNumber_Index(index));
  if (!number) return false;
  self->index = PyLong_AsLongLong(number.get());
  if (self->index != -1 || !PyErr_Occurred()) return true;
  PyErr_Clear();
  PyErr_SetString(PyExc_ValueError, "scope() index must fit into 64 bits");
  return false;
}

// Keyword arguments: `name` and `index` are ours, everything else is an attribute.
bool take_keywords(Scope* self, PyObject* const* values, PyObject* keys, PyObject** name,
                   PyObject** index) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    if (PyBool_Check(values[i]) && PyUnicode_CompareWithASCIIString(key, "gpu") == 0) {
      self->gpu = values[i] == Py_True;
      continue;
    }
    PyObject** target = PyUnicode_CompareWithASCIIString(key, "index") == 0  ? index
                        : PyUnicode_CompareWithASCIIString(key, "name") == 0 ? name
                                                                             : nullptr;
    if (target != nullptr) {
      if (*target != nullptr) {
        PyErr_Format(PyExc_TypeError, "scope() got multiple values for argument '%U'", key);
        return false;
      }
      *target = values[i];
      continue;
    }
    if (self->attrs == nullptr && (self->attrs = PyDict_New()) == nullptr) return false;
    if (PyDict_SetItem(self->attrs, key, values[i]) != 0) return false;
  }
  return true;
}

bool fill(Scope* self, PyObject* const* args, Py_ssize_t count, PyObject* keys) {
  if (count > 2) {
    PyErr_Format(PyExc_TypeError, "scope() takes at most 2 positional arguments (%zd given)",
                 count);
    return false;
  }
  PyObject* name = count > 0 ? args[0] : nullptr;
  PyObject* index = count > 1 ? args[1] : nullptr;
  if (keys != nullptr && !take_keywords(self, args + count, keys, &name, &index)) return false;
  if (name == nullptr) {
    PyErr_SetString(PyExc_TypeError, "scope() missing required argument: 'name'");
    return false;
  }
  if (!PyUnicode_Check(name)) {
    PyErr_Format(PyExc_TypeError, "scope() name must be a str, not %.100s", Py_TYPE(name)->tp_name);
    return false;
  }
  self->name = Py_NewRef(name);
  self->name_id = name_id(name);
  return index == nullptr || set_index(self, index);
}

PyObject* scope_vectorcall(PyObject*, PyObject* const* args, std::size_t flagged, PyObject* keys) {
  Scope* self = allocate();
  if (self == nullptr) return nullptr;
  self->call = call_scope;
  self->name = self->attrs = nullptr;
  self->handle = {};
  self->end_ns = 0;
  self->outer = nullptr;
  self->has_index = self->gpu = self->entered = false;
  self->flags = 0;
  const Py_ssize_t count = PyVectorcall_NARGS(flagged);
  auto* object = reinterpret_cast<PyObject*>(self);
  if (!fill(self, args, count, keys)) {
    Py_DECREF(object);
    return nullptr;
  }
  // Only a scope with attributes can be part of a cycle.
  if (self->attrs != nullptr) PyObject_GC_Track(object);
  return object;
}

// For callers that cannot use vectorcall: type.__call__ through tp_new.
PyObject* scope_new(PyTypeObject*, PyObject* args, PyObject* keywords) {
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  const Py_ssize_t extra = keywords != nullptr ? PyDict_GET_SIZE(keywords) : 0;
  const Ref keys(extra != 0 ? PyTuple_New(extra) : nullptr);
  std::vector<PyObject*> all;
  for (Py_ssize_t i = 0; i < count; ++i) all.push_back(PyTuple_GET_ITEM(args, i));
  if (extra != 0) {
    if (!keys) return nullptr;
    Py_ssize_t position = 0, i = 0;
    PyObject *key, *value;
    while (PyDict_Next(keywords, &position, &key, &value)) {
      PyTuple_SET_ITEM(keys.get(), i++, Py_NewRef(key));
      all.push_back(value);
    }
  }
  return scope_vectorcall(nullptr, all.data(), static_cast<std::size_t>(count), keys.get());
}

int scope_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as_scope(self)->attrs);
  return 0;
}

int scope_clear(PyObject* self) {
  Py_CLEAR(as_scope(self)->attrs);
  return 0;
}

void close_now(Scope* self, record::ClosedBy closed_by, PyObject* exception = nullptr) noexcept;

void scope_dealloc(PyObject* object) {
  Scope* self = as_scope(object);
  if (PyObject_GC_IsTracked(object)) PyObject_GC_UnTrack(object);
  // Entered by hand and dropped: the span ends here, and says so.
  while (self->entered) close_now(self, record::ClosedBy::kGarbage);
  Py_CLEAR(self->name);
  Py_CLEAR(self->attrs);
  if (g_free_count < kFreeListSize) {
    g_free[g_free_count++] = self;
  } else {
    PyObject_GC_Del(object);
  }
}

// Cold: attributes, a name that is not interned, a scope that is entered again.
record::ScopeHandle open_with_text(Scope* self, record::ThreadState& thread, record::Lane& stack,
                                   record::ScopeStart start) {
  base::JsonWriter attrs;
  if (self->attrs != nullptr) encode_members(attrs, self->attrs);
  start.attrs = attrs.view();
  record::ScopeHandle handle;
  if (start.name != 0) return record::open_scope(thread, stack, start);
  if (!with_utf8(self->name, [&](std::string_view utf8) {
        start.name_text = utf8;
        handle = record::open_scope(thread, stack, start);
      })) {
    PyErr_Clear();
  }
  return handle;
}

thread_local bool t_depth_warned = false;

PyObject* refuse_enter() {
  if (!t_depth_warned) {
    t_depth_warned = true;
    warn_user(
        "[cirron] more than MAX_DEPTH (64) scopes are open on this thread: deeper ones are not "
        "recorded; is "
        "a scope never closed?");
  }
  Py_RETURN_NONE;
}

// An event where there is CUDA; where a framework's queue is watched, a mark in that.
void start_gpu(record::ScopeStart& start) {
  look_for_gpu();
  const std::uint32_t event = probe::queue_watched() ? probe::queue_mark() : probe::gpu_mark();
  if (event == 0) return;
  start.aux = event;
  start.flags |= record::kHasGpu;
}

// The event that ends the scope's GPU time.
void end_gpu(const record::ScopeHandle& handle) {
  if (!record::is_open(handle)) return;
  record::OpenScope& slot = handle.stack->stack[handle.slot];
  if ((slot.flags.load(std::memory_order_relaxed) & record::kHasGpu) == 0) return;
  const bool queue = probe::is_queue_mark(static_cast<std::uint32_t>(slot.aux));
  slot.aux |= std::uint64_t{queue ? probe::queue_mark() : probe::gpu_mark()} << 32;
}

PyObject* scope_enter(PyObject* object) {
  Scope* self = as_scope(object);
  record::ThreadState* thread = record::this_thread();
  if (thread == nullptr) return Py_NewRef(object);
  record::Lane* stack = current_stack(*thread);
  if (stack == nullptr) [[unlikely]] {
    record::count_laneless(false);
    Py_RETURN_NONE;
  }
  if (self->entered) [[unlikely]] {
    self->outer = new OuterEntry{self->handle,    self->parent, self->start_ns,
                                 self->thread_id, self->era,    self->outer};
  }
  record::ScopeStart start;
  start.kept = true;
  start.name = self->name_id;
  start.index = self->index;
  start.flags = static_cast<std::uint8_t>(self->flags | (self->has_index ? record::kHasIndex : 0));
  if (self->gpu) [[unlikely]]
    start_gpu(start);
  const bool plain = self->attrs == nullptr && start.name != 0;
  self->handle = plain ? record::open_scope(*thread, *stack, start)
                       : open_with_text(self, *thread, *stack, start);
  self->entered = true;
  if (!self->handle) [[unlikely]]
    return refuse_enter();
  const record::OpenScope& slot = stack->stack[self->handle.slot];
  self->parent = slot.parent;
  self->start_ns = slot.start_ns;
  self->end_ns = 0;
  self->thread_id = thread->lane->thread_id;
  self->era = current_era();
  stack_changed(*thread, *stack);
  return Py_NewRef(object);
}

// The thread a close is recorded on: this one, even where the gate is closed by now.
record::ThreadState* closing_thread(const record::ScopeHandle& handle) noexcept {
  record::ThreadState& state = record::detail::t_state;
  if (state.lane != nullptr && state.generation == handle.generation) [[likely]]
    return &state;
  return record::this_thread();
}

// The attributes that an exception adds to those of the scope. An attribute of that name that the
// program has set itself stays.
void append_exception(base::JsonWriter& attrs, const record::ScopeHandle& handle,
                      PyObject* exception) noexcept {
  if (!record::is_open(handle) || names_exception(attrs.view())) return;
  const record::OpenScope& slot = handle.stack->stack[handle.slot];
  if (names_exception(record::name_text(slot.static_attrs))) return;
  const std::string members = exception_text(exception).members();
  if (!attrs.empty() && !members.empty()) attrs.raw(',');
  attrs.raw(members);
}

// Cold: attributes, an exception, a name that is not interned. False when it was closed before.
bool close_with_text(Scope* self, record::ThreadState& thread, record::ScopeEnd end,
                     std::uint64_t now, PyObject* exception) {
  const record::ScopeHandle handle = self->handle;  // a repr may do anything, also enter it again
  base::JsonWriter attrs;
  if (self->attrs != nullptr && PyDict_GET_SIZE(self->attrs) != 0) {
    const KeepError keep;
    encode_members(attrs, self->attrs);
    end.replace_attrs = true;
  }
  if (exception != nullptr) {
    append_exception(attrs, handle, exception);
    end.replace_attrs = end.replace_attrs || !attrs.empty();
  }
  end.attrs = attrs.view();
  if (self->name_id != 0) return record::close_scope(thread, handle, end, now);
  // Not interned: the stack has kept only as much of it as fits there.
  bool ended_here = true;
  with_utf8(self->name, [&](std::string_view utf8) {
    end.name_text = utf8;
    ended_here = record::close_scope(thread, handle, end, now);
  });
  return ended_here;
}

// Cold: the entry below the one that ended is the current one again.
void return_to_outer(Scope* self) noexcept {
  OuterEntry* outer = self->outer;
  self->handle = outer->handle;
  self->start_ns = outer->start_ns;
  self->parent = outer->parent;
  self->thread_id = outer->thread_id;
  self->era = outer->era;
  self->outer = outer->next;
  self->entered = true;
  self->end_ns = 0;
  delete outer;
}

// Cold: its parent, the end of the session or of a thread had closed it before.
void take_end(Scope* self, std::uint64_t sequence) noexcept {
  if (const std::uint64_t end_ns = record::take_end(sequence)) self->end_ns = end_ns;
}

void close_now(Scope* self, record::ClosedBy closed_by, PyObject* exception) noexcept {
  const std::uint64_t sequence = self->handle.sequence;
  if (record::Lane* stack = self->handle.stack) {
    if (self->gpu) [[unlikely]]
      end_gpu(self->handle);
    const std::uint64_t now = base::monotonic_ns();
    self->end_ns = now;
    if (record::ThreadState* thread = closing_thread(self->handle)) {
      const record::ScopeEnd end{.closed_by = closed_by};
      const bool plain = self->attrs == nullptr && self->name_id != 0 && exception == nullptr;
      if (!(plain ? record::close_scope(*thread, self->handle, end, now)
                  : close_with_text(self, *thread, end, now, exception))) [[unlikely]]
        take_end(self, sequence);
      stack_changed(*thread, *stack);
    }
  }
  self->entered = false;
  const std::int64_t index = self->has_index ? self->index : record::kNoIndex;
  if (self->outer != nullptr) [[unlikely]]
    return_to_outer(self);
  if (self->name_id == epoch_name()) [[unlikely]]
    epoch_closed(sequence, index);
}

// `exception`: the one that leaves the block, or None.
PyObject* scope_exit(PyObject* object, PyObject* exception) {
  Scope* self = as_scope(object);
  if (self->entered) [[likely]]
    close_now(self, record::ClosedBy::kSelf, exception == Py_None ? nullptr : exception);
  Py_RETURN_NONE;
}

// `with` binds __enter__ and __exit__ for every use, and a bound method costs an allocation each.
// So the two are descriptors that hand out the scope itself, which is callable: without arguments
// it enters, with the three of __exit__ it exits. Looked up on the class they hand out themselves.
struct Doorway {
  PyObject_HEAD vectorcallfunc call;
  bool exit;
};

PyObject* call_scope(PyObject* self, PyObject* const* args, std::size_t flagged, PyObject* keys) {
  const Py_ssize_t count = PyVectorcall_NARGS(flagged);
  if ((count != 0 && count != 3) || keys != nullptr) [[unlikely]] {
    PyErr_SetString(PyExc_TypeError,
                    "a scope is a context manager: use `with scope(...):`, not as a decorator");
    return nullptr;
  }
  return count == 3 ? scope_exit(self, args[1]) : scope_enter(self);
}

PyObject* call_doorway(PyObject* self, PyObject* const* args, std::size_t flagged, PyObject*) {
  const Py_ssize_t count = PyVectorcall_NARGS(flagged);
  if (count < 1 || Py_TYPE(args[0]) != &g_scope_type) {
    PyErr_SetString(PyExc_TypeError, "the first argument must be a scope");
    return nullptr;
  }
  if (!reinterpret_cast<Doorway*>(self)->exit) return scope_enter(args[0]);
  return scope_exit(args[0], count > 2 ? args[2] : Py_None);
}

PyObject* bind_doorway(PyObject* self, PyObject* scope, PyObject*) {
  return Py_NewRef(scope != nullptr && scope != Py_None ? scope : self);
}

PyTypeObject g_doorway_type = [] {
  PyTypeObject type = {};
  type.ob_base = PyVarObject{PyObject_HEAD_INIT(nullptr) 0};
  type.tp_name = "sonde._core.doorway";
  type.tp_basicsize = sizeof(Doorway);
  type.tp_vectorcall_offset = offsetof(Doorway, call);
  type.tp_call = PyVectorcall_Call;
  type.tp_flags =
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_descr_get = bind_doorway;
  return type;
}();

bool add_doorway(const char* name, bool exit) {
  auto* doorway = PyObject_New(Doorway, &g_doorway_type);
  if (doorway == nullptr) return false;
  doorway->call = call_doorway;
  doorway->exit = exit;
  const Ref owned(reinterpret_cast<PyObject*>(doorway));
  return PyDict_SetItemString(g_scope_type.tp_dict, name, owned.get()) == 0;
}

}  // namespace

PyTypeObject g_scope_type = [] {
  PyTypeObject type = {};
  type.ob_base = PyVarObject{PyObject_HEAD_INIT(nullptr) 0};
  type.tp_name = "sonde._core.scope";
  type.tp_basicsize = sizeof(Scope);
  type.tp_dealloc = scope_dealloc;
  type.tp_repr = scope_repr;
  type.tp_vectorcall_offset = offsetof(Scope, call);
  type.tp_call = PyVectorcall_Call;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
  type.tp_doc =
      "scope(name, index=None, **attrs)\n--\n\nA region of the run: a context manager that records "
      "one span.";
  type.tp_traverse = scope_traverse;
  type.tp_clear = scope_clear;
  type.tp_getset = g_scope_fields;
  type.tp_new = scope_new;
  type.tp_vectorcall = scope_vectorcall;
  return type;
}();

bool add_scope(PyObject* module) {
  if (PyType_Ready(&g_doorway_type) != 0 || PyType_Ready(&g_scope_type) != 0) return false;
  if (!add_doorway("__enter__", false) || !add_doorway("__exit__", true)) return false;
  PyType_Modified(&g_scope_type);
  if (!add_scope_functions(module)) return false;
  return PyModule_AddObjectRef(module, "scope", reinterpret_cast<PyObject*>(&g_scope_type)) == 0;
}

}  // namespace sonde::native
