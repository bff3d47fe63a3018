// Which parameters the optimizers of the program own. That tells a model that is trained from a
// target, a teacher or a part of a metric.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "engine/hook/training.h"
#include "python/native/python.h"

namespace sonde::native {

// One per process. Needs the GIL.
class Ownership {
 public:
  static Ownership& instance() noexcept { return *one_; }

  // An optimizer (with param_groups) was made or steps. It is not kept alive. Hot.
  static void note_optimizer(PyObject* optimizer) noexcept {
    if (hot_.latest != optimizer) [[unlikely]]
      note_another(optimizer);
  }
  // A number that changes whenever answers of of() may have changed. Hot.
  static std::uint32_t version() noexcept { return hot_.version; }

  // Does an optimizer own a parameter of this module or of a part of it?
  hook::Owned of(PyObject* module) noexcept;

  // Drops the optimizers that have died and collects the parameters of the others again: an
  // address in the set may be another object's by now.
  void collect();
  void forget_all();

 private:
  struct Known {
    PyObject* reference;  // weak
    PyObject* optimizer;  // compared only
    Py_ssize_t groups;    // how many it had
  };
  // Among the other data that plain steps look at.
  struct Hot {
    PyObject* latest = nullptr;  // the optimizer that was noted last; compared only
    std::uint32_t version = 1;
  };
  enum class Found : std::uint8_t { kYes, kNo, kUnclear };

  static constinit Hot hot_;
  static Ownership* const one_;  // never destroyed: optimizers may die after static destructors ran

  static void note_another(PyObject* optimizer) noexcept;  // static: its caller is hot
  void learn(PyObject* optimizer) noexcept;
  void add_parameters(PyObject* optimizer);
  void add_variables(PyObject* optimizer);
  Found find_owned(PyObject* module, int& budget) const;

  std::vector<Known> optimizers_;
  std::unordered_set<const PyObject*> parameters_;  // compared only
  bool some_module_owned_ = false;
};

}  // namespace sonde::native
