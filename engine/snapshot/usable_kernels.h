// The kernels for the processor that the program runs on.
#pragma once

#include <span>

#include "engine/snapshot/kernels.h"

namespace sonde::snapshot {

// The kernels that this processor can run, the fastest first.
std::span<const Kernels* const> usable_kernels() noexcept;

}  // namespace sonde::snapshot
