// Spans turned on their side: one array per field, laid out the way Arrow wants them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/trace.h"

namespace sonde::exporting {

// One column. Which vectors are used follows from the type: offsets and text, or values.
struct Column {
  std::vector<std::uint8_t> valid;  // bitmap, least significant bit first; empty: no row is null
  std::int64_t null_count = 0;
  std::vector<std::int32_t> offsets;  // text: length + 1 of them
  std::string text;
  std::vector<std::int64_t> longs;   // int64, uint64
  std::vector<std::int32_t> shorts;  // int32, indices of a dictionary

  void set_null(std::size_t row, std::size_t rows);
};

struct SpanColumns {
  std::size_t rows = 0;
  Column id, parent_id, name, names, index, start_ns, end_ns, wall_us, cpu_ns, gpu_ns,
      memory_peak_bytes, thread_id, pid, rank, mark_count, depth,
      attrs;  // names: the dictionary of name, with rows of its own
};

// Throws std::length_error when a text column would not fit the 31-bit offsets of Arrow's utf8.
SpanColumns make_columns(const model::Batch& batch);

// Appends `text`, with U+FFFD for whatever is not UTF-8: consumers trust the bytes they are given,
// and a Python name may hold a lone surrogate.
void append_utf8(std::string& out, std::string_view text);

}  // namespace sonde::exporting
