// Calls that compute nothing: a Keras layer applied to a KerasTensor while a model is being built.
#pragma once

#include <cstddef>

#include "engine/base/placement.h"
#include "python/native/python.h"

namespace sonde::native {

// Keras' type of objects that stand for values; nullptr: the program has none.
extern PyTypeObject* g_symbolic_type;

// Cold: looks at the arguments after self, one level into lists, tuples and dicts.
SONDE_APART bool has_symbolic(PyObject* const* args, std::size_t flagged, PyObject* keys) noexcept;

inline bool is_symbolic_call(PyObject* const* args, std::size_t flagged, PyObject* keys) noexcept {
  return g_symbolic_type != nullptr && has_symbolic(args, flagged, keys);
}

}  // namespace sonde::native
