// measure with an instruction set of the caller's choice, for tests of each.
#pragma once

#include "engine/snapshot/kernels.h"
#include "engine/snapshot/statistics.h"

namespace sonde::snapshot {

void measure_with(const Kernels& kernels, std::span<const Tensor> tensors,
                  std::span<Statistics> out, unsigned threads);

}  // namespace sonde::snapshot
