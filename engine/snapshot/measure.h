// Measures tensors in memory.
#pragma once

#include <span>

#include "engine/snapshot/kernels.h"
#include "engine/snapshot/statistics.h"
#include "engine/snapshot/tensor.h"

namespace sonde::snapshot {

// The statistics of tensors[i] go to out[i]. At most `threads` threads work, the caller among them;
// the result does not depend on how many. Any thread. May throw std::bad_alloc.
void measure(std::span<const Tensor> tensors, std::span<Statistics> out, unsigned threads);

// As measure(), with an instruction set of the caller's choice, for tests of each.
void measure_with(const Kernels& kernels, std::span<const Tensor> tensors,
                  std::span<Statistics> out, unsigned threads);

}  // namespace sonde::snapshot
