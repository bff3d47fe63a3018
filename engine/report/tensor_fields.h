// Fields of a tensor's line that are written the same in a table, in CSV and in JSON.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>

#include "engine/analysis/tensors.h"
#include "engine/model/trace.h"

namespace sonde::report {

// "" for kNone.
inline std::string integer(std::int64_t value) {
  return value == model::kNone ? "" : std::to_string(value);
}

inline std::string run_of(const analysis::TensorLine& line) {
  return line.epoch->run == 0 ? "" : std::to_string(line.epoch->run);
}

inline std::string shape_of(const analysis::TensorLine& line) {
  std::string out = "[";
  std::copy_if(line.tensor.shape.begin(), line.tensor.shape.end(), std::back_inserter(out),
               [](char c) { return c != ' '; });
  return out + ']';
}

}  // namespace sonde::report
