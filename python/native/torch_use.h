// Does the program really use torch, or only import it? Known where torch's hooks first have
// something to record.
#pragma once

#include "python/native/python.h"

namespace sonde::native {

namespace detail {
struct TorchUse {
  bool awaited = false;        // it has not been used in this session
  PyObject* on_use = nullptr;  // called when it is
};
extern constinit TorchUse g_torch_use;
void torch_is_used() noexcept;
}  // namespace detail

// With the GIL, where torch's hooks record. Once per session it calls Python, which may run
// anything: not while something of ours is half done.
inline void torch_in_use() noexcept {
  if (detail::g_torch_use.awaited) [[unlikely]]
    detail::torch_is_used();
}

}  // namespace sonde::native
