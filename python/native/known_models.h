// The models and optimizers that hooks have seen at work, so that snapshots know what is trained.
// None of them is kept alive.
#pragma once

#include <cstdint>

#include "python/native/python.h"
#include "python/native/weak_list.h"

namespace sonde::native {

// One per process. Needs the GIL.
class KnownModels {
 public:
  static KnownModels& instance() noexcept { return *one_; }

  // A module was called that is not part of a running module. To be called whenever it is another
  // module than before, and when it is in training mode for the first time.
  void note_model(PyObject* module, bool training) noexcept;
  // Notes that there is a model to take snapshots of, although none was called.
  void note_model_exists() noexcept { any_ = true; }
  // An optimizer is known to exist; it need not have stepped.
  void note_optimizer(PyObject* optimizer) noexcept;
  // A backward is over: has a model got its first gradients? They are looked for after the first
  // backward that follows on a new model, then more and more rarely. Hot.
  static void note_backward() noexcept {
    if (++backwards_.count == backwards_.look_at) [[unlikely]]
      look_for_gradients();
  }

  // Is any model known?
  bool any() const noexcept { return any_; }
  // A number that changes whenever a model or an optimizer is added.
  std::uint64_t version() const noexcept { return version_; }
  // [(module, has run in training mode, has had a gradient)] of those that are alive; nullptr with
  // an exception set.
  PyObject* models();
  // The optimizers that are alive; nullptr with an exception set.
  PyObject* optimizers() const { return optimizers_.alive(); }

  // Snapshots begin or end: forgets everything. on_trained(module): a model has got its first
  // gradients; on_gone(id of the optimizer, its param_groups): an optimizer has died. Both may be
  // nullptr.
  void listen(PyObject* on_trained, PyObject* on_gone) noexcept;

 private:
  // Among the other data that plain steps look at.
  struct Backwards {
    std::uint64_t count = 0;
    std::uint64_t look_at = 0;  // gradients are looked for at this count; 0: never
  };
  static constinit Backwards backwards_;
  static KnownModels* const one_;  // never destroyed: objects may die after static destructors ran

  static void look_for_gradients() noexcept;  // static: its caller is hot

  WeakList models_, optimizers_;
  bool any_ = false;
  std::uint64_t version_ = 0;
  std::uint64_t pause_ = 1;  // backwards until gradients are looked for again
  PyObject* on_trained_ = nullptr;
};

}  // namespace sonde::native
