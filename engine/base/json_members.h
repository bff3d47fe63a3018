// Reads the members of a JSON object one by one out of its text, which begins after the opening
// brace. Attributes are kept as that text, without the braces, from where they are recorded to
// where they are shown, and this is the way to look into them. The closing brace ends the members;
// so does damaged text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sonde::base {

// Undoes the escapes of a string's text. `out` has room for the text as it stands: escapes only
// ever shrink. Returns the end, null where an escape is illegal. A lone surrogate becomes its three
// bytes.
char* unescape(std::string_view body, char* out) noexcept;

// Reads the escape that a backslash begins; body[at] is the character after the backslash. Moves
// `at` past what it read. The two halves of a surrogate pair are one code point. False: the escape
// is not legal.
bool read_escape(std::string_view body, std::size_t& at, std::uint32_t& code) noexcept;

// A view of a value's text.
class JsonValue {
 public:
  JsonValue() = default;
  explicit JsonValue(std::string_view raw) noexcept : raw_(raw) {}

  explicit operator bool() const noexcept { return !raw_.empty(); }  // there is such a member
  std::string_view raw() const noexcept { return raw_; }             // as it stands there
  bool is_true() const noexcept { return raw_ == "true"; }
  // Whether it is this text.
  bool is(std::string_view text) const noexcept;
  // The escapes undone; "" for anything but a string.
  std::string text() const;
  // As text(), but a view with the escapes left in, for text that is known to have none.
  std::string_view plain_text() const noexcept;
  // For anything but an integer of 64 bits, `otherwise`.
  std::int64_t integer(std::int64_t otherwise = 0) const noexcept;

 private:
  bool is_text() const noexcept {
    return raw_.size() >= 2 && raw_.front() == '"' && raw_.back() == '"';
  }

  std::string_view raw_;
};

class JsonMembers {
 public:
  explicit JsonMembers(std::string_view members) noexcept : rest_(members) {}
  // Moves to the next one; false at the end.
  bool next() noexcept;
  // Whether the member has this name.
  bool is(std::string_view name) const noexcept { return JsonValue(key_).is(name); }
  JsonValue value() const noexcept { return value_; }
  // Name and value as they stand there, without the comma.
  std::string_view text() const noexcept {
    const char* const end = value_.raw().data() + value_.raw().size();
    return {key_.data(), static_cast<std::size_t>(end - key_.data())};
  }

 private:
  std::string_view rest_;
  std::string_view key_;  // with its quotes
  JsonValue value_;
};

// The first member of that name.
JsonValue find_member(std::string_view members, std::string_view name) noexcept;

}  // namespace sonde::base
