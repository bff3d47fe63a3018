// Tensors on NVIDIA GPUs. Python tells which stream the program works on.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/snapshot/capture.h"
#include "engine/snapshot/tensor.h"

namespace sonde::native {

// Begins to measure tensors of one device, on the stream that torch works on; tensors[i] is the
// capture's record number records[i]. False: nothing was begun, and the caller has to measure them
// in another way. With the GIL.
bool begin_cuda(int device, std::span<const snapshot::Tensor> tensors,
                std::vector<std::size_t> records, snapshot::Capture& capture);

// The program has begun to use this GPU.
void gpu_appeared(int device) noexcept;

}  // namespace sonde::native
