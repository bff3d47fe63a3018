// The fields of a span object. It may be kept, and asked long after its span has ended, on another
// thread or in another process.
#include "engine/record/ends.h"
#include "python/native/scope.h"
#include "python/native/session.h"

namespace sonde::native {

namespace {

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

// An object may be asked long after somebody else closed its span.
bool is_closed(const Scope* self) {
  return self->entered ? record::noted_end(self->handle.sequence) != 0 : self->end_ns != 0;
}

PyObject* get_id(PyObject* self, void*) {
  return optional_id(as_scope(self)->era, as_scope(self)->handle.sequence);
}
PyObject* get_parent(PyObject* self, void*) {
  return optional_id(as_scope(self)->era, as_scope(self)->handle ? as_scope(self)->parent : 0);
}
PyObject* get_name(PyObject* self, void*) { return Py_NewRef(as_scope(self)->name); }
PyObject* get_start(PyObject* self, void*) {
  return wall_time(as_scope(self)->era, as_scope(self)->handle ? as_scope(self)->start_ns : 0);
}
PyObject* get_end(PyObject* object, void*) {
  const Scope* self = as_scope(object);
  return wall_time(self->era,
                   self->entered ? record::noted_end(self->handle.sequence) : self->end_ns);
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
  if (!as_scope(self)->handle) Py_RETURN_NONE;
  return PyLong_FromUnsignedLong(as_scope(self)->thread_id);
}

PyObject* get_pid(PyObject* self, void*) {
  return PyLong_FromLong(era_pid(as_scope(self)->handle ? as_scope(self)->era : current_era()));
}
PyObject* get_rank(PyObject* self, void*) {
  return PyLong_FromLong(era_rank(as_scope(self)->handle ? as_scope(self)->era : current_era()));
}

PyObject* get_marks(PyObject* self, void*) {
  const Scope* scope = as_scope(self);
  return mark_ids_of(base::make_id(era_key(scope->era), scope->handle.sequence));
}

}  // namespace

PyObject* scope_repr(PyObject* self) {
  const Scope* scope = as_scope(self);
  return PyUnicode_FromFormat("<scope %R%s>", scope->name,
                              is_closed(scope) ? ", closed"
                              : scope->entered ? ", open"
                                               : "");
}

PyGetSetDef g_scope_fields[] = {
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

}  // namespace sonde::native
