// Types of elements, by the names that the frameworks share.
#pragma once

#include <string_view>

#include "engine/snapshot/tensor.h"
#include "python/native/torch.h"

namespace sonde::native {

struct TensorType {
  std::string_view name;
  snapshot::Element element;
  bool complex = false;
};

// nullptr: there are no statistics for elements of this type.
const TensorType* find_type(std::string_view name) noexcept;
// Finds the type by DLPack's code and width; nullptr where these do not say enough.
const TensorType* find_type(const DlTensor& tensor) noexcept;
// The name for a letter of the struct module, for buffers that have no dtype (array.array,
// memoryview).
std::string_view name_of_format(const char* format) noexcept;

}  // namespace sonde::native
