// The name of a member of a JSON object, in the forms in which writers and readers want it.
#pragma once

#include <string_view>

namespace sonde::model {

class JsonKey {
 public:
  // ,"x":
  consteval explicit JsonKey(std::string_view text) : text_(text) {}

  constexpr std::string_view name() const noexcept { return text_.substr(2, text_.size() - 4); }
  constexpr std::string_view next() const noexcept { return text_; }             // ,"x":
  constexpr std::string_view first() const noexcept { return text_.substr(1); }  // "x":
  // As it stands in a file after the first quote: x"
  constexpr std::string_view quoted() const noexcept { return text_.substr(2, text_.size() - 3); }

 private:
  std::string_view text_;
};

}  // namespace sonde::model
