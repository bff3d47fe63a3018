// scope(name, index=None, **attrs): the context manager, which is also the live span object.
#include "engine/record/scope.h"

#include <cstddef>
#include <vector>

#include "engine/probe/device_queue.h"
#include "engine/probe/gpu_clock.h"
#include "engine/record/mark.h"
#include "engine/session/engine.h"
#include "python/native/attrs.h"
#include "python/native/boundaries.h"
#include "python/native/exceptions.h"
#include "python/native/hooks.h"
#include "python/native/names.h"
#include "python/native/session.h"
#include "python/native/stack.h"

namespace sonde::native {

namespace {

// State of an entry below the current one, when a scope object is entered while it is already open.
struct OuterEntry {
  record::ScopeHandle handle;
  std::uint64_t parent;
  std::uint64_t start_ns;
  std::uint32_t era;
  OuterEntry* next;
};

struct Scope {
  PyObject_HEAD vectorcallfunc call;  // see Doorway
  PyObject* name;
  PyObject* attrs;  // dict, or nullptr while nobody asked for it
  record::ScopeHandle handle;
  std::uint64_t sequence;  // of the last span, also when it is closed
  std::uint64_t parent;
  std::uint64_t start_ns;  // monotonic
  std::uint64_t end_ns;    // 0: open or never entered
  std::int64_t index;
  OuterEntry* outer;
  std::uint32_t name_id;
  std::uint32_t era;   // session in which it was entered
  std::uint8_t flags;  // SpanFlags of every entry
  bool has_index;
  bool gpu;  // asked for
  bool entered;
};

constexpr std::size_t kFreeListSize = 64;
Scope* g_free[kFreeListSize];
std::size_t g_free_count = 0;

extern PyTypeObject g_scope_type;

PyObject* call_scope(PyObject* self, PyObject* const* args, std::size_t flagged, PyObject* keys);

Scope* as_scope(PyObject* object) { return reinterpret_cast<Scope*>(object); }

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
  self->sequence = self->start_ns = self->end_ns = self->parent = 0;
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
        "[cirron] more than MAX_DEPTH (64) scopes are open on this thread: deeper ones are not recorded; is "
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
    self->outer =
        new OuterEntry{self->handle, self->parent, self->start_ns, self->era, self->outer};
  }
  record::ScopeStart start;
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
  self->sequence = self->handle.sequence;
  self->parent = slot.parent;
  self->start_ns = slot.start_ns;
  self->end_ns = 0;
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

void close_now(Scope* self, record::ClosedBy closed_by, PyObject* exception) noexcept {
  const record::ScopeHandle handle = self->handle;
  if (handle) {
    if (self->gpu) [[unlikely]]
      end_gpu(handle);
    const std::uint64_t now = base::monotonic_ns();
    self->end_ns = now;
    if (record::ThreadState* thread = closing_thread(handle)) {
      record::ScopeEnd end{.closed_by = closed_by};
      base::JsonWriter attrs;
      if (self->attrs != nullptr && PyDict_GET_SIZE(self->attrs) != 0) [[unlikely]] {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        encode_members(attrs, self->attrs);
        PyErr_Restore(type, value, traceback);
        end.replace_attrs = true;
      }
      if (exception != nullptr) [[unlikely]] {
        append_exception(attrs, handle, exception);
        end.replace_attrs = end.replace_attrs || !attrs.empty();
      }
      end.attrs = attrs.view();
      if (self->name_id == 0) [[unlikely]] {
        // Not interned: the stack has kept only as much of it as fits there.
        with_utf8(self->name, [&](std::string_view utf8) {
          end.name_text = utf8;
          record::close_scope(*thread, handle, end, now);
        });
      } else {
        record::close_scope(*thread, handle, end, now);
      }
      stack_changed(*thread, *handle.stack);
    }
  }
  self->handle = {};
  self->entered = false;
  const std::int64_t index = self->has_index ? self->index : record::kNoIndex;
  if (OuterEntry* outer = self->outer) [[unlikely]] {
    self->handle = outer->handle;
    self->start_ns = outer->start_ns;
    self->parent = outer->parent;
    self->era = outer->era;
    self->sequence = outer->handle.sequence;
    self->outer = outer->next;
    self->entered = true;
    self->end_ns = 0;
    delete outer;
  }
  if (self->name_id == epoch_name()) [[unlikely]]
    epoch_closed(handle.sequence, index);
}

// `exception`: the one that leaves the block, or None.
PyObject* scope_exit(PyObject* object, PyObject* exception) {
  Scope* self = as_scope(object);
  if (self->entered) [[likely]]
    close_now(self, record::ClosedBy::kSelf, exception == Py_None ? nullptr : exception);
  Py_RETURN_NONE;
}

// -- the span's fields --

PyObject* optional_id(std::uint32_t era, std::uint64_t sequence) {
  if (sequence == 0) Py_RETURN_NONE;
  char text[32];
  base::write_hex(base::make_id(era_key(era), sequence), text);
  return PyUnicode_FromStringAndSize(text, sizeof text);
}

PyObject* wall_time(std::uint32_t era, std::uint64_t monotonic) {
  if (monotonic == 0) Py_RETURN_NONE;
  return PyLong_FromLongLong(base::to_wall_ns(era_anchor(era), monotonic));
}

PyObject* get_id(PyObject* self, void*) {
  return optional_id(as_scope(self)->era, as_scope(self)->sequence);
}
PyObject* get_parent(PyObject* self, void*) {
  return optional_id(as_scope(self)->era, as_scope(self)->parent);
}
PyObject* get_name(PyObject* self, void*) { return Py_NewRef(as_scope(self)->name); }
PyObject* get_start(PyObject* self, void*) {
  return wall_time(as_scope(self)->era, as_scope(self)->start_ns);
}
PyObject* get_end(PyObject* self, void*) {
  return wall_time(as_scope(self)->era, as_scope(self)->end_ns);
}
PyObject* get_none(PyObject*, void*) { Py_RETURN_NONE; }

PyObject* get_index(PyObject* self, void*) {
  if (!as_scope(self)->has_index) Py_RETURN_NONE;
  return PyLong_FromLongLong(as_scope(self)->index);
}

PyObject* get_attrs(PyObject* object, void*) {
  Scope* self = as_scope(object);
  if (self->attrs == nullptr) {
    self->attrs = PyDict_New();
    if (self->attrs == nullptr) return nullptr;
    PyObject_GC_Track(object);
  }
  return Py_NewRef(self->attrs);
}

PyObject* get_thread(PyObject* self, void*) {
  const record::ScopeHandle& handle = as_scope(self)->handle;
  return PyLong_FromUnsignedLong(handle ? static_cast<unsigned long>(handle.stack->thread_id)
                                        : PyThread_get_thread_ident());
}

PyObject* get_pid(PyObject*, void*) {
  return PyLong_FromLong(static_cast<long>(record::Journal::instance().header().pid));
}
PyObject* get_rank(PyObject*, void*) {
  return PyLong_FromLong(record::Journal::instance().header().rank);
}

PyObject* get_marks(PyObject* self, void*) {
  const Scope* scope = as_scope(self);
  return mark_ids_of(base::make_id(era_key(scope->era), scope->sequence));
}

PyObject* scope_repr(PyObject* self) {
  const Scope* scope = as_scope(self);
  return PyUnicode_FromFormat("<scope %R%s>", scope->name,
                              scope->entered       ? ", open"
                              : scope->end_ns != 0 ? ", closed"
                                                   : "");
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

PyGetSetDef g_fields[] = {
    {"id", get_id, nullptr, "32 hex digits; None before it was entered.", nullptr},
    {"name", get_name, nullptr, nullptr, nullptr},
    {"index", get_index, nullptr, nullptr, nullptr},
    {"attrs", get_attrs, nullptr, "Live dict, written out when the span closes.", nullptr},
    {"parent_id", get_parent, nullptr, nullptr, nullptr},
    {"start_ns", get_start, nullptr, "Wall clock, nanoseconds.", nullptr},
    {"end_ns", get_end, nullptr, "Wall clock, nanoseconds; None while open.", nullptr},
    {"cpu_ns", get_none, nullptr, nullptr, nullptr},
    {"gpu_ns", get_none, nullptr, nullptr, nullptr},
    {"memory_peak_bytes", get_none, nullptr, nullptr, nullptr},
    {"thread_id", get_thread, nullptr, nullptr, nullptr},
    {"pid", get_pid, nullptr, nullptr, nullptr},
    {"rank", get_rank, nullptr, nullptr, nullptr},
    {"marks", get_marks, nullptr, "Ids of the marks recorded on it so far (reading them flushes).",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

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
  type.tp_getset = g_fields;
  type.tp_new = scope_new;
  type.tp_vectorcall = scope_vectorcall;
  return type;
}();

// claim_levels(scope, epochs, steps, validation=False): while it is open, hooks open none of those
// below it.
PyObject* claim_levels(PyObject*, PyObject* args) {
  PyObject* scope = nullptr;
  int epochs = 0, steps = 0, validation = 0;
  if (!PyArg_ParseTuple(args, "O!pp|p:claim_levels", &g_scope_type, &scope, &epochs, &steps,
                        &validation))
    return nullptr;
  as_scope(scope)->flags = static_cast<std::uint8_t>(
      (epochs != 0 ? record::kOwnsEpochs : 0) | (steps != 0 ? record::kOwnsSteps : 0) |
      (validation != 0 ? record::kOwnsValidation : 0));
  return Py_NewRef(scope);
}

// drop_scope(scope): as if it had never been entered. False when something was recorded since.
PyObject* drop_scope(PyObject*, PyObject* object) {
  if (Py_TYPE(object) != &g_scope_type) {
    PyErr_SetString(PyExc_TypeError, "the argument must be a scope");
    return nullptr;
  }
  Scope* self = as_scope(object);
  record::ThreadState* thread = record::this_thread();
  if (thread == nullptr || !self->handle || self->outer != nullptr) Py_RETURN_FALSE;
  record::Lane* stack = self->handle.stack;
  const std::uint64_t event =
      self->gpu ? stack->stack[self->handle.slot].aux & 0xFFFFFFFFu : std::uint64_t{0};
  if (thread->lane->next_sequence != self->sequence + 1 || !record::cancel_scope(self->handle))
    Py_RETURN_FALSE;
  const auto number = static_cast<std::uint32_t>(event);
  probe::is_queue_mark(number) ? probe::queue_release(number) : probe::gpu_release(number);
  self->handle = {};
  self->entered = false;
  stack_changed(*thread, *stack);
  Py_RETURN_TRUE;
}

// mark_on(scope, name, value, summary=False): a float on this very span, also when it is closed.
PyObject* mark_on(PyObject*, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"scope", "name", "value", "summary", nullptr};
  PyObject *scope = nullptr, *name = nullptr;
  int summary = 0;
  record::MarkValue mark;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!Ud|p:mark_on", const_cast<char**>(names),
                                   &g_scope_type, &scope, &name, &mark.real, &summary))
    return nullptr;
  const Scope* self = as_scope(scope);
  record::ThreadState* thread = record::this_thread();
  record::Lane* stack = thread != nullptr ? current_stack(*thread) : nullptr;
  if (stack == nullptr || self->sequence == 0 || self->era != current_era()) Py_RETURN_NONE;
  mark.summary = summary != 0;
  mark.span = self->sequence;
  mark.span_lists_it = self->handle.stack == stack && record::is_open(self->handle);
  mark.name = name_id(name);
  if (mark.name != 0) {
    record::write_mark(*thread, *stack, mark);
  } else if (!with_utf8(name, [&](std::string_view utf8) {
               mark.name_text = utf8;
               record::write_mark(*thread, *stack, mark);
             })) {
    PyErr_Clear();
  }
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"drop_scope", drop_scope, METH_O,
     "drop_scope(scope)\n--\n\n"
     "As if it had never been entered; false when something was recorded in it since."},
    {"mark_on", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(mark_on)),
     METH_VARARGS | METH_KEYWORDS,
     "mark_on(scope, name, value, summary=False)\n--\n\n"
     "Attach a float to this very scope, also when it is closed by now."},
    {"claim_levels", claim_levels, METH_VARARGS,
     "claim_levels(scope, epochs, steps, validation=False)\n--\n\n"
     "While this scope is open, hooks open no epoch, no step, no validation below it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_scope(PyObject* module) {
  if (PyType_Ready(&g_doorway_type) != 0 || PyType_Ready(&g_scope_type) != 0) return false;
  if (!add_doorway("__enter__", false) || !add_doorway("__exit__", true)) return false;
  PyType_Modified(&g_scope_type);
  if (PyModule_AddFunctions(module, g_functions) != 0) return false;
  return PyModule_AddObjectRef(module, "scope", reinterpret_cast<PyObject*>(&g_scope_type)) == 0;
}

}  // namespace sonde::native
