// Parses the text of one batch with simdjson. This header does not include simdjson, so users of
// the reader do not need it.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "engine/codec/detail.h"
#include "engine/codec/fault.h"
#include "engine/model/trace.h"

namespace sonde::codec {

class BatchParser {
 public:
  // Bytes after the text that must be readable and blank: the parser could take a bracket there for
  // one that the text lacks.
  static constexpr std::size_t kPadding = 64;

  BatchParser();
  ~BatchParser();
  // Adds to `out`, which holds an unusable part of the batch after a fault.
  Fault parse(std::string_view json, Detail detail, model::Batch& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sonde::codec
