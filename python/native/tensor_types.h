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

// nullptr: statistics are not taken of such elements.
const TensorType* find_type(std::string_view name) noexcept;
// By DLPack's code and width; nullptr where more has to be asked.
const TensorType* find_type(const DlTensor& tensor) noexcept;
// Of the struct module's letters, for buffers that have no dtype (array.array, memoryview).
std::string_view name_of_format(const char* format) noexcept;

}  // namespace sonde::native
