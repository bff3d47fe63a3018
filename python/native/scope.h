// The scope object of Python: what its three source files share.
#pragma once

#include "engine/record/scope.h"
#include "python/native/python.h"

namespace sonde::native {

// State of an entry below the current one, when a scope object is entered while it is already open.
struct OuterEntry {
  record::ScopeHandle handle;
  std::uint64_t parent;
  std::uint64_t start_ns;
  std::uint64_t thread_id;
  std::uint32_t era;
  OuterEntry* next;
};

struct Scope {
  PyObject_HEAD vectorcallfunc call;  // see Doorway
  PyObject* name;
  PyObject* attrs;             // dict, or nullptr while nobody asked for it
  record::ScopeHandle handle;  // of the last span, also when it is closed; empty: none was recorded
  std::uint64_t parent;
  std::uint64_t start_ns;  // monotonic
  std::uint64_t end_ns;    // 0: open, never entered, or closed by somebody else (see record/ends.h)
  std::uint64_t thread_id;  // of the thread that entered it; means nothing before
  std::int64_t index;
  OuterEntry* outer;
  std::uint32_t name_id;
  std::uint32_t era;   // session in which it was entered
  std::uint8_t flags;  // SpanFlags of every entry
  bool has_index;
  bool gpu;  // asked for
  bool entered;
};

inline Scope* as_scope(PyObject* object) { return reinterpret_cast<Scope*>(object); }

extern PyTypeObject g_scope_type;
extern PyGetSetDef g_scope_fields[];
PyObject* scope_repr(PyObject* self);
// Adds what hooks do with a scope to the module; false with an exception set.
bool add_scope_functions(PyObject* module);

}  // namespace sonde::native
