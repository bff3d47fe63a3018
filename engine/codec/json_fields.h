// What the parsers of batches, spans, marks and snapshots share: finding keys and turning tokens
// into values. Includes simdjson: for the parsers only.
#pragma once

#include <simdjson.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "engine/base/arena.h"
#include "engine/base/id.h"
#include "engine/codec/fault.h"
#include "engine/codec/json_text.h"
#include "engine/model/trace.h"

namespace sonde::codec {

namespace ondemand = simdjson::ondemand;

// Ends the parse; only BatchParser::parse catches it. A batch with a fault is refused as a
// whole, and an exception spares the parsers some forty error checks.
[[noreturn]] inline void refuse(const char* reason, int error = EINVAL) {
  throw Fault{error, reason};
}

// Returns the value where it lies: copying a field costs more (stores that cannot be forwarded)
// than finding it.
template <typename T>
T&& must(simdjson::simdjson_result<T>&& result) {
  const simdjson::error_code error = result.error();
  if (error != simdjson::SUCCESS) [[unlikely]]
    refuse(simdjson::error_message(error));
  return std::move(result).value_unsafe();
}

// Finds a key's place in a fixed list. Writers keep the order of keys, so the place after the last
// one found is tried first; any order is legal, so the others are tried too.
template <std::size_t N>
class Keys {
 public:
  constexpr explicit Keys(const std::array<std::string_view, N>& quoted) : quoted_(quoted) {}
  // N: unknown.
  std::size_t find(const char* raw, std::size_t& expected) const noexcept {
    for (std::size_t tried = 0, i = expected; tried < N; ++tried, i = i + 1 < N ? i + 1 : 0) {
      if (std::memcmp(raw, quoted_[i].data(), quoted_[i].size()) == 0) {
        expected = i + 1 < N ? i + 1 : 0;
        return i;
      }
    }
    return N;
  }

 private:
  std::array<std::string_view, N> quoted_;  // with the closing quote; shorter than the padding
};

// Repeated names share one copy. Direct-mapped and small: a name repeats within a few spans or
// never.
class RecentTexts {
 public:
  std::string_view get(std::string_view body, base::Arena& arena) {
    Entry& entry = entries_[place(body)];
    if (entry.text.data() != nullptr && entry.body == body) return entry.text;
    std::string_view text;
    if (!unescape(body, arena, text)) refuse("a string has an illegal escape");
    entry = {body, text};
    return text;
  }

 private:
  struct Entry {
    std::string_view body;
    std::string_view text;
  };
  static std::size_t place(std::string_view body) noexcept {
    if (body.empty()) return 0;
    const auto at = [&](std::size_t i) {
      return static_cast<std::size_t>(static_cast<unsigned char>(body[i]));
    };
    return (body.size() + at(0) * 7 + at(body.size() / 2) * 31 + at(body.size() - 1) * 131) %
           kEntries;
  }
  static constexpr std::size_t kEntries = 128;
  std::array<Entry, kEntries> entries_;
};

// A value's text up to the next token. A string is consumed: if simdjson only skips one and a colon
// follows, it takes the string for a key and does not notice the damage.
inline std::string_view token_of(ondemand::value& value) {
  const std::string_view token = value.raw_json_token();
  if (token.front() == '"') must(value.get_raw_json_string());
  return token;
}

inline std::string_view string_of(std::string_view token) {
  std::string_view body;
  if (!string_body(token, body)) refuse("a string is expected");
  return body;
}

inline base::Id id_of(std::string_view token) {
  if (token.starts_with('n')) return {};
  const std::string_view body = string_of(token);
  return body.empty() ? base::Id{} : id_from_text(body);
}

inline std::int64_t integer_of(std::string_view token) {
  std::int64_t value = 0;
  if (!parse_integer(token, value)) refuse("an integer is expected");
  return value;
}

// kNone for null, and also for a number that does not fit 64 bits: better than refusing the batch.
inline std::int64_t optional_of(std::string_view token) noexcept {
  std::int64_t value = 0;
  return parse_integer(token, value) ? value : model::kNone;
}

// A number that is not finite, as Python's encoder writes it, but quoted. Our writer used this form
// for marks before it had that of base/non_finite.h, and still does in attributes.
inline bool non_finite_of(std::string_view body, double& out) noexcept {
  if (body == "NaN") {
    out = std::numeric_limits<double>::quiet_NaN();
  } else if (body == "Infinity" || body == "-Infinity") {
    out = std::numeric_limits<double>::infinity() * (body.front() == '-' ? -1 : 1);
  } else {
    return false;
  }
  return true;
}

inline void read_number(std::string_view token, std::int64_t& out) { out = integer_of(token); }

inline void read_number(std::string_view token, std::int32_t& out) {
  const std::int64_t value = integer_of(token);
  if (value < std::numeric_limits<std::int32_t>::min() ||
      value > std::numeric_limits<std::int32_t>::max()) {
    refuse("a pid or rank is out of range");
  }
  out = static_cast<std::int32_t>(value);
}

// Some writers store a thread id as a signed number.
inline void read_number(std::string_view token, std::uint64_t& out) {
  if (!parse_unsigned(token, out)) out = static_cast<std::uint64_t>(integer_of(token));
}

// An object's text. The text is handed on as it stands, and simdjson checks only what it is asked
// for, so it is checked here.
inline std::string_view object_text(ondemand::object& object) {
  const std::string_view text = trim(must(object.raw_json()));
  if (!is_legal_object(text)) refuse("an object is not valid JSON");
  return text;
}

inline std::string_view members_of(ondemand::value& value, base::Arena& arena) {
  ondemand::object object = must(value.get_object());
  const std::string_view text = object_text(object);
  return arena.copy(trim(text.substr(1, text.size() - 2)));
}

}  // namespace sonde::codec
