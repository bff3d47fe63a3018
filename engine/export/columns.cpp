#include "engine/export/columns.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "engine/base/utf8.h"

namespace sonde::exporting {

namespace {

bool is_ascii(std::string_view text) {
  unsigned char seen = 0;
  for (const char c : text) seen |= static_cast<unsigned char>(c);
  return seen < 0x80;
}

// Length of the UTF-8 sequence at the start of `text`, 0 if there is none. Arrow takes no
// surrogates.
std::size_t sequence_length(std::string_view text) {
  std::uint32_t code = 0;
  const std::size_t length = base::decode_utf8(text, 0, code);
  return base::is_surrogate(code) ? 0 : length;
}

}  // namespace

void Column::end_text() {
  if (text.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw std::length_error(
        "more than 2 GiB of text in one column; ask for fewer spans with name= or last=");
  }
  offsets.push_back(static_cast<std::int32_t>(text.size()));
}

void Column::set_null(std::size_t row, std::size_t rows) {
  if (valid.empty()) valid.assign((rows + 7) / 8, 0xFF);
  valid[row / 8] = static_cast<std::uint8_t>(valid[row / 8] & ~(1u << (row % 8)));
  ++null_count;
}

void append_utf8(std::string& out, std::string_view text) {
  if (is_ascii(text)) {
    out += text;
    return;
  }
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
}

}  // namespace sonde::exporting
