// The properties of a span object. A program may keep the object and ask it long after the span has
// ended, on another thread or in another process.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/model/span_fields.h"
#include "engine/record/ends.h"
#include "engine/record/generation.h"
#include "engine/session/engine.h"
#include "python/native/hooks.h"
#include "python/native/scope.h"

namespace sonde::native {

namespace {

// The session that the span was opened in, whose key and clock its id and times need. That session
// may have ended, or the process may be a child that was forked meanwhile.
record::Provenance provenance_of(const Scope* self) {
  return record::provenance(self->handle ? self->handle.generation : record::generation());
}

PyObject* optional_id(PyObject* self, std::uint64_t sequence) {
  if (sequence == 0) Py_RETURN_NONE;
  char text[32];
  base::write_hex(base::make_id(provenance_of(as_scope(self)).key, sequence), text);
  return PyUnicode_FromStringAndSize(text, sizeof text);
}

PyObject* wall_time(const Scope* self, std::uint64_t monotonic) {
  if (monotonic == 0) Py_RETURN_NONE;
  return PyLong_FromLongLong(base::to_wall_ns(provenance_of(self).anchor, monotonic));
}

// The span may have been closed by other code than the object's own block.
bool is_closed(const Scope* self) {
  return self->entered ? record::noted_end(self->handle.sequence) != 0 : self->end_ns != 0;
}

PyObject* get_id(PyObject* self, void*) {
  return optional_id(self, as_scope(self)->handle.sequence);
}
PyObject* get_parent(PyObject* self, void*) {
  return optional_id(self, as_scope(self)->handle ? as_scope(self)->parent : 0);
}
PyObject* get_name(PyObject* self, void*) { return Py_NewRef(as_scope(self)->name); }
PyObject* get_start(PyObject* self, void*) {
  return wall_time(as_scope(self), as_scope(self)->handle ? as_scope(self)->start_ns : 0);
}
PyObject* get_end(PyObject* object, void*) {
  const Scope* self = as_scope(object);
  return wall_time(self, self->entered ? record::noted_end(self->handle.sequence) : self->end_ns);
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
  return PyLong_FromLong(provenance_of(as_scope(self)).pid);
}
PyObject* get_rank(PyObject* self, void*) {
  return PyLong_FromLong(provenance_of(as_scope(self)).rank);
}

PyObject* get_marks(PyObject* self, void*) {
  const Scope* scope = as_scope(self);
  const base::Id span = base::make_id(provenance_of(scope).key, scope->handle.sequence);
  session::Engine& engine = session::Engine::instance();
  settle_hooks();
  Py_BEGIN_ALLOW_THREADS;
  engine.flush();
  Py_END_ALLOW_THREADS;
  std::vector<base::Id> ids;
  engine.read_mark_ids(span, ids);
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(ids.size()));
  for (std::size_t i = 0; list != nullptr && i < ids.size(); ++i) {
    char text[32];
    base::write_hex(ids[i], text);
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i),
                    PyUnicode_FromStringAndSize(text, sizeof text));
  }
  return list;
}

}  // namespace

PyObject* scope_repr(PyObject* self) {
  const Scope* scope = as_scope(self);
  return PyUnicode_FromFormat("<scope %R%s>", scope->name,
                              is_closed(scope) ? ", closed"
                              : scope->entered ? ", open"
                                               : "");
}

namespace {

// What a span object knows by itself. A field of the spool that is not here is None.
constexpr PyGetSetDef kKnown[] = {
    {"id", get_id, nullptr, "32 hex digits; None before it was entered.", nullptr},
    {"name", get_name, nullptr, nullptr, nullptr},
    {"index", get_index, nullptr, nullptr, nullptr},
    {"attrs", get_attrs, nullptr, "Live dict, written out when the span closes.", nullptr},
    {"parent_id", get_parent, nullptr, nullptr, nullptr},
    {"start_ns", get_start, nullptr, "Wall clock, nanoseconds.", nullptr},
    {"end_ns", get_end, nullptr, "Wall clock, nanoseconds; None while open.", nullptr},
    {"thread_id", get_thread, nullptr, nullptr, nullptr},
    {"pid", get_pid, nullptr, nullptr, nullptr},
    {"rank", get_rank, nullptr, nullptr, nullptr},
};
constexpr PyGetSetDef kMarks = {"marks", get_marks, nullptr,
                                "Ids of the marks recorded on it so far (reading them flushes).",
                                nullptr};

constexpr bool is_field(std::string_view name) {
  bool found = false;
  model::for_each_field<model::kSpool>(
      [&]<typename One>(One) { found = found || One::kName == name; });
  return found;
}
static_assert(std::ranges::all_of(kKnown,
                                  [](const PyGetSetDef& known) { return is_field(known.name); }));

template <typename One>
constexpr PyGetSetDef property_of() {
  if (One::kKind == model::Kind::kMarkIds) return kMarks;
  for (const PyGetSetDef& known : kKnown) {
    if (One::kName == known.name) return known;
  }
  return {One::kName.data(), get_none, nullptr, "None: only a span that is read back has it.",
          nullptr};
}

// One property for each field of the spool, and the entry that ends the list.
constinit auto g_properties = [] {
  std::array<PyGetSetDef, model::field_count<model::kSpool>() + 1> properties = {};
  std::size_t at = 0;
  model::for_each_field<model::kSpool>(
      [&]<typename One>(One) { properties[at++] = property_of<One>(); });
  return properties;
}();

}  // namespace

constinit PyGetSetDef* const g_scope_fields = g_properties.data();

}  // namespace sonde::native
