// Finds out from autograd which forwards a backward goes through.
#pragma once

#include <cstdint>

#include "engine/hook/training.h"
#include "python/native/python.h"

namespace sonde::native {

// Has autograd call Training::use_graph when a backward reaches the result of this forward. Where
// that is not possible, the forward counts as used. Never raises. No Python code runs, so Dynamo,
// which may be compiling the calling frame, does not see it.
SONDE_APART void watch_graph(hook::Training& training, std::uint64_t sequence,
                             PyObject* result) noexcept;

bool add_graph_watch();

}  // namespace sonde::native
