// Tables through the Arrow C stream interface. pandas, polars, pyarrow and duckdb take the buffers
// without a copy, and this library depends on none of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/export/columns.h"
#include "engine/model/trace.h"

// The declarations of https://arrow.apache.org/docs/format/CDataInterface.html and
// CStreamInterface.html, which ask every producer to bring its own under these names and guards.
extern "C" {

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema* out);
  int (*get_next)(ArrowArrayStream*, ArrowArray* out);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};

#endif
}

namespace sonde::exporting {

// Fills `out` with a stream of one record batch that has a row per span, in the order of the batch.
// The columns are those of the form kColumns (model/span_fields.h); span_columns.cpp gives each its
// Arrow type. What is not known, such as the end of an open span, is null. mark_count is what the
// spans say, marks is what the batch has in mark_lists, depth counts the ancestors in the batch.
// The consumer calls out->release, from any thread; the stream holds the batch until its table is
// taken. Throws std::bad_alloc; the callbacks throw nothing and return an errno.
void export_spans(std::shared_ptr<const model::Batch> spans_and_marks, ArrowArrayStream* out);

// As export_spans, for any table; `make` is called when the consumer first asks.
using MakeTable = std::function<ColumnTable()>;
void export_table(MakeTable make, ArrowArrayStream* out);

}  // namespace sonde::exporting
