// Objects in the order in which they were first seen, none of them kept alive, as many as there
// are.
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

  // The object's entry, made if it is new; nullptr: it cannot be referred to weakly. The
  // caller may run no Python code while it uses the entry. `gone`: called when it dies, with the
  // reference; or nullptr.
  Entry* note(PyObject* object, PyObject* gone = nullptr) noexcept;
  std::size_t size() const noexcept { return entries_.size(); }
  Entry& operator[](std::size_t i) noexcept { return entries_[i]; }
  // nullptr: it is dead.
  static Ref get(const Entry& entry) noexcept;
  // Those that live, as a list; nullptr with an exception set.
  PyObject* alive() const;
  void clear() noexcept;

 private:
  void drop_dead() noexcept;

  std::vector<Entry> entries_;
  std::unordered_map<const PyObject*, std::size_t> places_;
  std::size_t most_ = 64;  // then the dead ones are dropped
  std::uintptr_t made_ = 0;
};

}  // namespace sonde::native
