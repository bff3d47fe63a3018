// The text of one batch to values, on simdjson. Separate from the reader, so that only the parsers
// include simdjson.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "engine/codec/detail.h"
#include "engine/model/trace.h"

namespace sonde::codec {

// What is wrong with a text; error 0 when nothing is.
struct Fault {
  int error = 0;
  const char* reason = "";
};

class BatchParser {
 public:
  // Bytes behind the text that must be readable, and blank: a bracket there could be taken for the
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
