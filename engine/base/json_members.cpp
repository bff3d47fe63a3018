#include "engine/base/json_members.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "engine/base/utf8.h"

namespace sonde::base {

namespace {

bool parse_hex4(std::string_view text, std::size_t at, std::uint32_t& code) noexcept {
  if (at + 4 > text.size()) return false;
  const char* begin = text.data() + at;
  const auto result = std::from_chars(begin, begin + 4, code, 16);
  return result.ec == std::errc() && result.ptr == begin + 4;
}

std::size_t skip_spaces(std::string_view json, std::size_t at) noexcept {
  return std::min(json.find_first_not_of(" \t\r\n", at), json.size());
}

// The place after the string that begins at `at`; beyond the end of the text if it is never closed.
std::size_t skip_string(std::string_view json, std::size_t at) noexcept {
  for (++at; at < json.size() && json[at] != '"'; ++at) {
    if (json[at] == '\\') ++at;
  }
  return at + 1;
}

// The place after the value that begins at `at`: the comma that follows it, or the end of the
// object or of the text.
std::size_t skip_value(std::string_view json, std::size_t at) noexcept {
  int depth = 0;
  while (at < json.size()) {
    const char c = json[at];
    if (c == '"') {
      at = skip_string(json, at);
      continue;
    }
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) break;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    ++at;
  }
  return at;
}

}  // namespace

bool read_escape(std::string_view body, std::size_t& at, std::uint32_t& code) noexcept {
  if (at >= body.size()) return false;
  constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  const char letter = body[at++];
  if (const std::size_t known = kLetters.find(letter); known != std::string_view::npos) {
    code = static_cast<unsigned char>(kMeanings[known]);
    return true;
  }
  if (letter != 'u' || !parse_hex4(body, at, code)) return false;
  at += 4;
  std::uint32_t low = 0;
  if (code >= 0xD800 && code < 0xDC00 && body.substr(at, 2) == "\\u" &&
      parse_hex4(body, at + 2, low) && low >= 0xDC00 && low < 0xE000) {
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    at += 6;
  }
  return true;
}

char* unescape(std::string_view body, char* out) noexcept {
  for (std::size_t at = 0; at < body.size();) {
    if (body[at] != '\\') {
      *out++ = body[at++];
      continue;
    }
    std::uint32_t code = 0;
    if (!read_escape(body, ++at, code)) return nullptr;
    out = write_utf8(code, out);
  }
  return out;
}

std::string_view JsonValue::plain_text() const noexcept {
  return is_text() ? raw_.substr(1, raw_.size() - 2) : std::string_view();
}

bool JsonValue::is(std::string_view text) const noexcept {
  if (!is_text()) return false;
  const std::string_view body = plain_text();
  if (body.find('\\') == std::string_view::npos) return body == text;
  for (std::size_t at = 0; at < body.size();) {
    char bytes[4] = {body[at]};
    std::size_t length = 1;
    std::uint32_t code = 0;
    if (body[at++] == '\\') {
      if (!read_escape(body, at, code)) return false;
      length = static_cast<std::size_t>(write_utf8(code, bytes) - bytes);
    }
    if (!text.starts_with(std::string_view(bytes, length))) return false;
    text.remove_prefix(length);
  }
  return text.empty();
}

std::string JsonValue::text() const {
  const std::string_view body = plain_text();
  std::string out(body);
  if (body.find('\\') == std::string_view::npos) return out;
  const char* end = unescape(body, out.data());
  out.resize(end == nullptr ? 0 : static_cast<std::size_t>(end - out.data()));
  return out;
}

std::int64_t JsonValue::integer(std::int64_t otherwise) const noexcept {
  std::int64_t number = 0;
  const char* const end = raw_.data() + raw_.size();
  const auto result = std::from_chars(raw_.data(), end, number);
  return result.ec == std::errc() && result.ptr == end ? number : otherwise;
}

bool JsonMembers::next() noexcept {
  const std::string_view json = rest_;
  rest_ = {};
  std::size_t at = skip_spaces(json, 0);
  if (at < json.size() && json[at] == ',') at = skip_spaces(json, at + 1);
  if (at >= json.size() || json[at] != '"') return false;
  const std::size_t key_end = skip_string(json, at);
  if (key_end > json.size()) return false;
  key_ = json.substr(at, key_end - at);
  at = skip_spaces(json, key_end);
  if (at >= json.size() || json[at] != ':') return false;
  at = skip_spaces(json, at + 1);
  const std::size_t end = skip_value(json, at);
  if (end > json.size()) return false;
  std::string_view value = json.substr(at, end - at);
  while (!value.empty() && skip_spaces(value, value.size() - 1) == value.size())
    value.remove_suffix(1);
  value_ = JsonValue(value);
  rest_ = json.substr(end);
  return true;
}

JsonValue find_member(std::string_view members, std::string_view name) noexcept {
  for (JsonMembers all(members); all.next();) {
    if (all.is(name)) return all.value();
  }
  return {};
}

}  // namespace sonde::base
