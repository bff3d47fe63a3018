// What is known of the modules that the program calls. It keeps no module alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/hook/training.h"
#include "python/native/ownership.h"
#include "python/native/python.h"

namespace sonde::native {

// Refers to an object without keeping it alive.
class WeakObject {
 public:
  bool is(PyObject* object) const noexcept {
    return reference_ != nullptr && refers_to(reference_, object);
  }
  void set(PyObject* object) noexcept {
    if (is(object)) return;
    PyObject* made = PyWeakref_NewRef(object, nullptr);  // may run code that calls this
    if (made == nullptr) PyErr_Clear();
    Py_XDECREF(std::exchange(reference_, made));
  }
  Ref get() const noexcept { return reference_ == nullptr ? Ref() : weak_target(reference_); }

 private:
  PyObject* reference_ = nullptr;
};

struct alignas(64) KnownModule {
  WeakObject module;
  std::uint32_t train_attrs = 0, eval_attrs = 0;  // interned
  std::uint32_t ownership = 0;                    // Ownership::version() when `owned` was found
  std::uint32_t models = 0;                       // ModuleCounts::models when they were made
  std::uint32_t snapshot_round = ~0u;
  bool has_parameters = false;
  bool trains = false;  // was it noted in that round as a module that trains?
  hook::Owned owned = hook::Owned::kUnknown;
};

// From now on forwards of this model's parts get their names in it, even if it is never called.
SONDE_COLD void know_model(PyObject* module) noexcept;

// Cold: fills in `known`, which is about another module, or out of date.
SONDE_COLD void learn_module(KnownModule& known, PyObject* module) noexcept;

namespace detail {
inline constexpr std::size_t kKnownModules = 64;
struct ModuleCounts {
  std::uint32_t models = 0;   // modules known as models, so that their parts have names in them
  std::uint64_t learned = 0;  // how often a slot has got another module
};
extern KnownModule g_known_modules[kKnownModules];
extern constinit ModuleCounts g_module_counts;
}  // namespace detail

// Hot. The reference is good until another module is looked up.
inline KnownModule& known_module(PyObject* module) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(module);
  KnownModule& known =
      detail::g_known_modules[(address >> 4 ^ address >> 12) % detail::kKnownModules];
  if (!known.module.is(module) || known.ownership != Ownership::version() ||
      known.models != detail::g_module_counts.models) [[unlikely]]
    learn_module(known, module);
  return known;
}

}  // namespace sonde::native
