// Columns of a table, laid out the way Arrow wants them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sonde::exporting {

// One column. Which vectors are used follows from the type: offsets and text, or values.
struct Column {
  std::vector<std::uint8_t> valid;  // bitmap, least significant bit first; empty: no row is null
  std::int64_t null_count = 0;
  std::vector<std::int32_t> offsets;  // text: length + 1 of them
  std::string text;
  std::vector<std::int64_t> longs;   // int64, uint64
  std::vector<std::int32_t> shorts;  // int32, indices of a dictionary
  std::vector<double> reals;

  void set_null(std::size_t row, std::size_t rows);
  // For text: what was appended to `text` since the last call is a row. Throws std::length_error
  // when that would not fit the 31-bit offsets of Arrow's utf8.
  void end_text();
};

enum class Type { kText, kLong, kUnsignedLong, kShort, kReal, kDictionary };

struct Field {
  const char* name;
  Type type;
  bool nullable = false;
  const Column* column = nullptr;
  const Column* dictionary = nullptr;  // the texts that the indices in `column` refer to
};

struct ColumnTable {
  std::size_t rows = 0;
  std::vector<Field> fields;
  std::shared_ptr<const void> owner;  // of the columns
};

// Appends `text`, with U+FFFD for bytes that are not UTF-8: consumers do not check them, and a
// Python name may hold a lone surrogate.
void append_utf8(std::string& out, std::string_view text);

}  // namespace sonde::exporting
