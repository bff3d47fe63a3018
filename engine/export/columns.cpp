#include "engine/export/columns.h"

#include <limits>
#include <stdexcept>

#include "engine/base/utf8.h"

namespace sonde::exporting {

namespace {

bool is_ascii(std::string_view text) {
  unsigned char seen = 0;
  for (const char c : text) seen |= static_cast<unsigned char>(c);
  return seen < 0x80;
}

// Length of the UTF-8 sequence at the start of `text`, 0 if there is none.
std::size_t sequence_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                             : (lead >> 4) == 14            ? 3
                             : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!base::is_continuation(text[i])) return 0;
  }
  // Longer than needed, a surrogate, or beyond the last code point.
  if ((lead == 0xE0 && at(1) < 0xA0) || (lead == 0xED && at(1) > 0x9F)) return 0;
  if ((lead == 0xF0 && at(1) < 0x90) || (lead == 0xF4 && at(1) > 0x8F)) return 0;
  return length;
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
