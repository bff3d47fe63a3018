// How far the kernels of a GPU are.
#pragma once

#include <cstdint>

namespace sonde::snapshot {

enum class CudaState : std::uint8_t { kPreparing, kReady, kUnavailable };

}  // namespace sonde::snapshot
