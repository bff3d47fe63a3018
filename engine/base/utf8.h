// The parts of UTF-8 that the engine needs. Python strings may hold lone surrogates; they are
// treated as ordinary three-byte sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sonde::base {

// A byte of a sequence, but not its first.
constexpr bool is_continuation(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// At most `bytes` of the text, cut between two code points.
constexpr std::string_view cut_utf8(std::string_view text, std::size_t bytes) noexcept {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && is_continuation(text[bytes])) --bytes;
  return text.substr(0, bytes);
}

// Decodes the code point at text[at]. Returns its length, or 0 where no valid sequence begins.
constexpr std::size_t decode_utf8(std::string_view text, std::size_t at,
                                  std::uint32_t& code) noexcept {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t length = lead < 0x80         ? 1
                             : (lead >> 5) == 6  ? 2
                             : (lead >> 4) == 14 ? 3
                             : (lead >> 3) == 30 ? 4
                                                 : 0;
  if (length == 0 || at + length > text.size()) return 0;
  code = length == 1 ? lead : lead & (0x7Fu >> length);
  for (std::size_t i = at + 1; i < at + length; ++i) {
    if (!is_continuation(text[i])) return 0;
    code = (code << 6) | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  return code < kSmallest[length] || code > 0x10FFFF ? 0 : length;
}

constexpr bool is_surrogate(std::uint32_t code) noexcept {
  return code >= 0xD800 && code <= 0xDFFF;
}

// Writes one code point, up to four bytes; returns the end.
constexpr char* write_utf8(std::uint32_t code, char* out) noexcept {
  const auto put = [&](std::uint32_t byte) { *out++ = static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
    return out;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  put((0xF0u << (3 - more) & 0xF0) | code >> (6 * more));
  for (int i = more - 1; i >= 0; --i) put(0x80 | (code >> (6 * i) & 0x3F));
  return out;
}

}  // namespace sonde::base
