// Tells a program that uses torch from one that only imports it: torch is used once its hooks have
// something to record.
#pragma once

#include "python/native/python.h"

namespace sonde::native {

namespace detail {
struct TorchUse {
  bool awaited = false;        // torch has not been used in this session
  PyObject* on_use = nullptr;  // called at its first use
};
extern constinit TorchUse g_torch_use;
void torch_is_used() noexcept;
}  // namespace detail

// To be called with the GIL where torch's hooks record, and where no change of the training state
// is half done: once per session it calls Python code.
inline void torch_in_use() noexcept {
  if (detail::g_torch_use.awaited) [[unlikely]]
    detail::torch_is_used();
}

}  // namespace sonde::native
