// Spans by column: one array per field.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "engine/export/columns.h"
#include "engine/model/span_fields.h"
#include "engine/model/trace.h"

namespace sonde::exporting {

struct SpanColumns {
  std::size_t rows = 0;
  std::array<Column, model::field_count<model::kColumns>()> columns;  // in the order of the fields
  Column names;  // the dictionary of `name`: one row per different name

  // The column of a field, such as at<"attrs">().
  template <model::FieldName kName>
  const Column& at() const noexcept {
    constexpr std::size_t kPlace =
        model::place_of_field<model::kColumns>({kName.text, sizeof kName.text - 1});
    static_assert(kPlace < model::field_count<model::kColumns>(), "there is no such column");
    return columns[kPlace];
  }
};

// Throws std::length_error when a text column would not fit the 31-bit offsets of Arrow's utf8.
SpanColumns make_columns(const model::Batch& batch);
ColumnTable as_table(std::shared_ptr<const SpanColumns> columns);

}  // namespace sonde::exporting
