// The Python object `scope`; shared by the source files that implement it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/record/scope.h"
#include "python/native/python.h"

namespace sonde::native {

// State of an entry below the current one, when a scope object is entered while it is already open.
struct OuterEntry {
  record::ScopeHandle handle;
  std::uint64_t parent;
  std::uint64_t start_ns;
  std::uint64_t thread_id;
  OuterEntry* next;
};

struct Scope {
  PyObject_HEAD vectorcallfunc call;  // see Doorway in scope_type.cpp
  PyObject* name;
  PyObject* attrs;             // dict, or nullptr until it is asked for
  record::ScopeHandle handle;  // of the last span, open or closed; empty: none was recorded
  std::uint64_t parent;
  std::uint64_t start_ns;  // monotonic
  std::uint64_t end_ns;  // 0: open, never entered, or closed by something else (see record/ends.h)
  std::uint64_t thread_id;  // of the thread that entered it; not set before
  std::int64_t index;
  OuterEntry* outer;
  std::uint32_t name_id;
  std::uint8_t flags;  // SpanFlags of every entry
  bool has_index;
  bool gpu;  // was GPU time asked for?
  bool entered;
};

inline Scope* as_scope(PyObject* object) { return reinterpret_cast<Scope*>(object); }

extern PyTypeObject g_scope_type;
extern PyGetSetDef* const g_scope_fields;
PyObject* scope_repr(PyObject* self);

// Returns the scope itself; None: it cannot be recorded.
PyObject* enter_scope(PyObject* scope);
// `exception`: the one that leaves the block, or None. Returns None.
PyObject* exit_scope(PyObject* scope, PyObject* exception);
// How `with` calls a scope: without arguments it enters, with three it leaves (see Doorway).
PyObject* call_scope(PyObject* scope, PyObject* const* args, std::size_t flagged, PyObject* keys);
// Ends the span of an entered scope. `exception`: the one that leaves the block, or nullptr.
void close_scope(Scope* scope, record::ClosedBy closed_by, PyObject* exception = nullptr) noexcept;

}  // namespace sonde::native
