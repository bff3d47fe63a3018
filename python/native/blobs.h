// Raw tensors for a blob.
#pragma once

#include <string>

#include "engine/snapshot/safetensors.h"
#include "python/native/tensors.h"

namespace sonde::native {

// How a tensor that was read stands in a blob.
snapshot::SafeTensor safe_tensor(std::string name, const TensorReader& reader);

}  // namespace sonde::native
