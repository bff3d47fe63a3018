#include "engine/base/id.h"

#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "engine/base/clock.h"

namespace sonde::base {

Id random_id() noexcept {
  Id id;
  if (getrandom(&id, sizeof id, 0) != static_cast<ssize_t>(sizeof id)) {
    // No random source (a very old kernel, a strict sandbox): unique on this host is the best we
    // can do.
    id.hi = mix64(monotonic_ns() ^ (static_cast<std::uint64_t>(getpid()) << 32));
    id.lo = mix64(static_cast<std::uint64_t>(wall_clock_ns()) + id.hi);
  }
  return id;
}

namespace {

struct HexTable {
  char pairs[512];
};

constexpr HexTable make_hex_table() {
  HexTable table{};
  constexpr char kLetters[] = "0123456789abcdef";
  for (int i = 0; i < 256; ++i) {
    table.pairs[2 * i] = kLetters[i >> 4];
    table.pairs[2 * i + 1] = kLetters[i & 15];
  }
  return table;
}

constexpr HexTable kHex = make_hex_table();

void write_hex64(std::uint64_t value, char* out) noexcept {
  for (int i = 0; i < 8; ++i) {
    std::memcpy(out + 2 * i, kHex.pairs + 2 * ((value >> (56 - 8 * i)) & 0xFF), 2);
  }
}

struct DigitTable {
  std::uint8_t values[256];  // 0xFF: no hex digit
};

constexpr DigitTable make_digit_table() {
  DigitTable table{};
  for (std::uint8_t& value : table.values) value = 0xFF;
  for (int i = 0; i < 10; ++i) table.values['0' + i] = static_cast<std::uint8_t>(i);
  for (int i = 0; i < 6; ++i)
    table.values['a' + i] = table.values['A' + i] = static_cast<std::uint8_t>(10 + i);
  return table;
}

constexpr DigitTable kDigits = make_digit_table();

// Without a branch per digit: on random digits, branches cost five times as much as the conversion.
bool parse_hex64(const char* text, std::uint64_t& out) noexcept {
  std::uint64_t value = 0;
  unsigned seen = 0;
  for (int i = 0; i < 16; ++i) {
    const unsigned digit = kDigits.values[static_cast<unsigned char>(text[i])];
    seen |= digit;
    value = (value << 4) | (digit & 15);
  }
  out = value;
  return seen < 16;
}

}  // namespace

void write_hex(const Id& id, char* out) noexcept {
  write_hex64(id.hi, out);
  write_hex64(id.lo, out + 16);
}

bool parse_hex(std::string_view text, Id& out) noexcept {
  if (text.size() != 32) return false;
  Id id;
  if (!parse_hex64(text.data(), id.hi) || !parse_hex64(text.data() + 16, id.lo)) return false;
  out = id;
  return true;
}

}  // namespace sonde::base
