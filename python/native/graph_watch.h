// Which forwards a backward goes through: autograd tells.
#pragma once

#include "engine/hook/training.h"
#include "python/native/python.h"

namespace sonde::native {

// Has autograd call Training::use_graph where a backward comes to what this forward has returned;
// where it cannot, the forward counts as used. Never raises. No Python code runs: Dynamo, which may
// be compiling the frame around, does not see it.
SONDE_APART void watch_graph(hook::Training& training, std::uint64_t sequence,
                             PyObject* result) noexcept;

bool add_graph_watch();

}  // namespace sonde::native
