// Which parameters the optimizers of the program own: what is trained, and what is a target, a
// teacher or a part of the measuring.
#pragma once

#include <cstdint>

#include "engine/hook/training.h"
#include "python/native/python.h"

namespace sonde::native {

namespace detail {
extern PyObject* g_latest_optimizer;  // compared only
void note_optimizer_slow(PyObject* optimizer) noexcept;
}  // namespace detail

// An optimizer (with param_groups) was made or steps. It is not kept alive.
inline void note_optimizer(PyObject* optimizer) noexcept {
  if (detail::g_latest_optimizer != optimizer) [[unlikely]]
    detail::note_optimizer_slow(optimizer);
}

// Does one of them own a parameter of this module or of a part of it?
hook::Owned ownership_of(PyObject* module) noexcept;
// Another number whenever answers may have changed.
std::uint32_t ownership_version() noexcept;

}  // namespace sonde::native
