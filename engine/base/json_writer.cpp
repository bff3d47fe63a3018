#include "engine/base/json_writer.h"

#include <sys/mman.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>

#include "engine/base/utf8.h"

namespace sonde::base {

namespace {

// 1 where a byte can be copied as it is: printable ASCII but for the quote and the backslash.
constexpr std::array<bool, 256> make_plain() {
  std::array<bool, 256> plain{};
  for (int c = 0x20; c < 0x80; ++c) plain[c] = c != '"' && c != '\\' && c != 0x7F;
  return plain;
}
constexpr std::array<bool, 256> kPlain = make_plain();

constexpr std::size_t kMapped = std::size_t{1} << 20;

char* take(std::size_t bytes) {
  if (bytes < kMapped) return static_cast<char*>(::operator new(bytes));
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(memory);
}

void give(char* memory, std::size_t bytes) noexcept {
  if (bytes < kMapped) {
    ::operator delete(memory);
  } else {
    ::munmap(memory, bytes);
  }
}

}  // namespace

JsonWriter::~JsonWriter() { give(data_, capacity_); }

void JsonWriter::grow(std::size_t bytes) {
  std::size_t wanted = capacity_ ? capacity_ * 2 : 1024;
  while (wanted < size_ + bytes) wanted *= 2;
  char* bigger = take(wanted);
  if (size_) std::memcpy(bigger, data_, size_);
  give(data_, capacity_);
  data_ = bigger;
  capacity_ = wanted;
}

void JsonWriter::string(std::string_view utf8) {
  std::size_t plain = 0;
  while (plain < utf8.size() && kPlain[static_cast<unsigned char>(utf8[plain])]) ++plain;
  if (utf8.empty()) return raw("\"\"");
  if (plain != utf8.size()) return escape(utf8);
  char* out = reserve(utf8.size() + 2);
  *out = '"';
  std::memcpy(out + 1, utf8.data(), utf8.size());
  out[utf8.size() + 1] = '"';
  size_ += utf8.size() + 2;
}

void JsonWriter::escape(std::string_view utf8) {
  const auto unicode = [this](std::uint32_t code) {
    constexpr char kDigits[] = "0123456789abcdef";
    const char text[6] = {'\\',
                          'u',
                          kDigits[code >> 12 & 15],
                          kDigits[code >> 8 & 15],
                          kDigits[code >> 4 & 15],
                          kDigits[code & 15]};
    raw({text, 6});
  };
  raw('"');
  for (std::size_t i = 0; i < utf8.size();) {
    std::uint32_t code = 0;
    const std::size_t length = decode_utf8(utf8, i, code);
    if (length == 0) {
      unicode(0xFFFD);  // not UTF-8 at all: no str can hold it, only a damaged file
      ++i;
      continue;
    }
    if (code == '"' || code == '\\') {
      raw('\\');
      raw(static_cast<char>(code));
    } else if (code == '\n') {
      raw("\\n");
    } else if (code == '\t') {
      raw("\\t");
    } else if (code == '\r') {
      raw("\\r");
    } else if (code < 0x20 || code == 0x7F || is_surrogate(code)) {
      unicode(code);
    } else {
      raw(utf8.substr(i, length));
    }
    i += length;
  }
  raw('"');
}

void JsonWriter::number(std::int64_t value) {
  char* out = reserve(24);
  size_ += static_cast<std::size_t>(std::to_chars(out, out + 24, value).ptr - out);
}

void JsonWriter::number(std::uint64_t value) {
  char* out = reserve(24);
  size_ += static_cast<std::size_t>(std::to_chars(out, out + 24, value).ptr - out);
}

void JsonWriter::number(double value) {
  if (!std::isfinite(value)) {
    raw(std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    return;
  }
  char* out = reserve(40);
  char* end = std::to_chars(out, out + 32, value).ptr;
  bool integral = true;
  for (char* p = out; p != end; ++p) integral = integral && ((*p >= '0' && *p <= '9') || *p == '-');
  if (integral) {
    *end++ = '.';
    *end++ = '0';
  }
  size_ += static_cast<std::size_t>(end - out);
}

}  // namespace sonde::base
