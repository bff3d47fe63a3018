// Spans turned on their side: one array per field.
#pragma once

#include <memory>

#include "engine/export/columns.h"
#include "engine/model/trace.h"

namespace sonde::exporting {

struct SpanColumns {
  std::size_t rows = 0;
  Column id, parent_id, name, names, index, start_ns, end_ns, wall_us, cpu_ns, gpu_ns,
      memory_peak_bytes, thread_id, pid, rank, mark_count, depth, attrs,
      marks;  // names: the dictionary of name, with rows of its own
};

// Throws std::length_error when a text column would not fit the 31-bit offsets of Arrow's utf8.
SpanColumns make_columns(const model::Batch& batch);
ColumnTable as_table(std::shared_ptr<const SpanColumns> columns);

}  // namespace sonde::exporting
