#include "engine/codec/json_text.h"

#include <locale.h>
#include <stdlib.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>

#include "engine/base/arena.h"
#include "engine/base/id.h"
#include "engine/base/json_members.h"

namespace sonde::codec {

namespace {

bool is_space(char c) noexcept { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

std::size_t skip_digits(std::string_view text, std::size_t at) noexcept {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

// Length of the number that `text` begins with; 0: none.
std::size_t number_length(std::string_view text) noexcept {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const std::size_t whole = skip_digits(text, at);
  if (whole == at || (text[at] == '0' && whole > at + 1)) return 0;
  at = whole;
  if (at < text.size() && text[at] == '.') {
    const std::size_t end = skip_digits(text, at + 1);
    if (end == at + 1) return 0;
    at = end;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    const std::size_t end = skip_digits(text, at);
    if (end == at) return 0;
    at = end;
  }
  return at;
}

// Walks a text by the grammar of JSON, without making anything of it.
class Checker {
 public:
  explicit Checker(std::string_view text) : text_(text) {}
  bool object() noexcept {
    return next() == '{' && value(0) && (skip_space(), at_ == text_.size());
  }

 private:
  void skip_space() noexcept {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  char next() noexcept {  // the character ahead; 0 at the end
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) noexcept { return next() == c && ++at_ != 0; }

  bool value(int depth) noexcept {
    constexpr int kDeepest = 128;
    if (depth > kDeepest) return false;
    switch (next()) {
      case '{':
        return list('}', depth);
      case '[':
        return list(']', depth);
      case '"':
        return string();
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        break;
    }
    const std::size_t length = number_length(text_.substr(at_));
    at_ += length;
    return length != 0;
  }
  bool list(char close, int depth) noexcept {
    ++at_;
    if (take(close)) return true;
    do {
      if (close == '}' && !(next() == '"' && string() && take(':'))) return false;
      if (!value(depth + 1)) return false;
    } while (take(','));
    return take(close);
  }
  bool string() noexcept {
    for (++at_; at_ < text_.size();) {
      const unsigned char c = static_cast<unsigned char>(text_[at_++]);
      std::uint32_t code = 0;
      if (c == '"') return true;
      if (c < 0x20 || (c == '\\' && !base::read_escape(text_, at_, code))) return false;
    }
    return false;
  }
  bool word(std::string_view expected) noexcept {
    if (text_.substr(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

template <typename Number>
bool parse_number(std::string_view token, Number& out) noexcept {
  token = trim(token);
  const char* end = token.data() + token.size();
  const auto result = std::from_chars(token.data(), end, out);
  return result.ec == std::errc() && result.ptr == end;
}

}  // namespace

std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

bool string_body(std::string_view token, std::string_view& body) noexcept {
  while (!token.empty() && is_space(token.back())) token.remove_suffix(1);
  if (token.size() < 2 || token.front() != '"' || token.back() != '"') return false;
  body = token.substr(1, token.size() - 2);
  return true;
}

bool unescape(std::string_view body, base::Arena& arena, std::string_view& out) {
  if (body.empty()) {
    out = "";  // not null: a name may be empty
    return true;
  }
  if (std::memchr(body.data(), '\\', body.size()) == nullptr) {
    out = arena.copy(body);
    return true;
  }
  char* const start = arena.allocate(body.size());  // escapes only ever shrink
  const char* const end = base::unescape(body, start);
  if (end == nullptr) return false;
  out = {start, static_cast<std::size_t>(end - start)};
  return true;
}

bool parse_integer(std::string_view token, std::int64_t& out) noexcept {
  return parse_number(token, out);
}
bool parse_unsigned(std::string_view token, std::uint64_t& out) noexcept {
  return parse_number(token, out);
}

bool parse_real(std::string_view token, double& out) {
  token = trim(token);
  if (token.empty() || number_length(token) != token.size()) return false;
  const char* end = token.data() + token.size();
  const auto result = std::from_chars(token.data(), end, out);
  // 1e999 is legal JSON. from_chars does not say on which side the number is out of range; strtod
  // does, but it goes by the locale of the program.
  if (result.ec == std::errc::result_out_of_range) {
    static const locale_t kPlain = ::newlocale(LC_ALL_MASK, "C", nullptr);
    out = ::strtod_l(std::string(token).c_str(), nullptr, kPlain);
    return true;
  }
  return result.ec == std::errc();
}

bool is_legal_object(std::string_view text) noexcept { return Checker(text).object(); }

base::Id id_from_text(std::string_view text) noexcept {
  base::Id id;
  if (base::parse_hex(text, id)) return id;
  constexpr std::uint64_t kPrime = 0x100000001B3u;
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  return {base::mix64(hash), base::mix64(hash + text.size()) | 1};
}

bool quote_non_finite(std::string_view json, std::string& out) {
  out.clear();
  bool found = false;
  for (std::size_t at = 0; at < json.size();) {
    const char c = json[at];
    if (c == '"') {
      std::size_t end = at + 1;
      while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
      end = end < json.size() ? end + 1 : json.size();
      out.append(json, at, end - at);
      at = end;
      continue;
    }
    std::string_view token;
    for (const std::string_view name : {"NaN", "Infinity", "-Infinity"}) {
      if (c == name.front() && json.substr(at, name.size()) == name) token = name;
    }
    if (token.empty()) {
      out += json[at++];
      continue;
    }
    out.append("\"").append(token).append("\"");
    at += token.size();
    found = true;
  }
  return found;
}

}  // namespace sonde::codec
