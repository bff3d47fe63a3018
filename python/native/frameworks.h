// Which framework the program really uses: heard once, where it first has something to record.
#pragma once

#include "python/native/python.h"

namespace sonde::native {

namespace detail {
extern bool g_torch_awaited;
void torch_is_used() noexcept;
}  // namespace detail

// With the GIL, where torch's hook records. Once per session it calls Python, which may run
// anything: not while something of ours is half done.
inline void torch_in_use() noexcept {
  if (detail::g_torch_awaited) [[unlikely]]
    detail::torch_is_used();
}

bool add_frameworks(PyObject* module);

}  // namespace sonde::native
