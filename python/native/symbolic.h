// Calls that compute nothing: a Keras layer applied to a KerasTensor while a model is being built.
#pragma once

#include <cstddef>

#include "engine/base/placement.h"
#include "python/native/python.h"

namespace sonde::native {

// One per process. Needs the GIL.
class Symbolic {
 public:
  // Is a value that stands for others among the arguments after self? Hot.
  static bool is_call(PyObject* const* args, std::size_t flagged, PyObject* keys) noexcept {
    return type_ != nullptr && found_in(args, flagged, keys);
  }
  // Keras' type of such values; nullptr: the program has none.
  static void set_type(PyTypeObject* type) noexcept;

 private:
  // Looks one level into lists, tuples and dicts.
  SONDE_APART static bool found_in(PyObject* const* args, std::size_t flagged,
                                   PyObject* keys) noexcept;
  static bool is(PyObject* value) noexcept;
  static bool holds(PyObject* value) noexcept;

  static constinit PyTypeObject* type_;
};

}  // namespace sonde::native
