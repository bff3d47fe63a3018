// The models and optimizers that hooks have seen at work, so that snapshots know what is trained.
// Nothing of it is kept alive.
#pragma once

#include <cstdint>

#include "python/native/python.h"

namespace sonde::native {

namespace detail {
extern constinit std::uint64_t g_backwards;
extern constinit std::uint64_t g_look_at;
void look_for_gradients() noexcept;
}  // namespace detail

// A module was called from outside of any other. To be called whenever it is another module than
// before, and when it is in training mode for the first time.
void note_model(PyObject* module, bool training = true) noexcept;
// A backward is over: has a model got its first gradients? They are looked for after the first
// backward that follows on a new model, then more and more rarely.
inline void note_backward() noexcept {
  if (++detail::g_backwards == detail::g_look_at) [[unlikely]]
    detail::look_for_gradients();
}
// An optimizer is known to exist; it need not have stepped.
void note_known_optimizer(PyObject* optimizer) noexcept;
// Has any model been seen?
bool models_known() noexcept;

// Snapshots begin or end. on_trained(module): a model has got its first gradients;
// on_gone(id of the optimizer, its param_groups): an optimizer has died. Both may be nullptr.
void watch_seen(PyObject* on_trained, PyObject* on_gone) noexcept;

}  // namespace sonde::native
