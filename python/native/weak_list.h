// Weak references to objects, in the order in which the objects were first seen. There is no limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "python/native/python.h"

namespace sonde::native {

class WeakList {
 public:
  struct Entry {
    PyObject* reference = nullptr;
    std::uintptr_t number = 0;  // no other entry has ever had it
    bool fresh = true;          // until the caller of note() sets it to false
    bool trained = false;       // models: has run in training mode
    bool gradients = false;     // models: has had a gradient
  };

  // The entry of this object, made if it is new; nullptr: the object takes no weak references. The
  // caller may run no Python code while it uses the entry. `gone` is called with the reference when
  // the object dies; it may be nullptr.
  Entry* note(PyObject* object, PyObject* gone = nullptr) noexcept;
  std::size_t size() const noexcept { return entries_.size(); }
  Entry& operator[](std::size_t i) noexcept { return entries_[i]; }
  // Empty: the object is dead.
  static Ref get(const Entry& entry) noexcept;
  // The objects that are alive, as a list; nullptr with an exception set.
  PyObject* alive() const;
  void clear() noexcept;

 private:
  void drop_dead() noexcept;

  std::vector<Entry> entries_;
  std::unordered_map<const PyObject*, std::size_t> places_;
  std::size_t most_ = 64;  // at this size the dead are dropped
  std::uintptr_t made_ = 0;
};

}  // namespace sonde::native
