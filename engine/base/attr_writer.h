// Writes attributes: the members of a JSON object as text, without the braces. json_members.h reads
// them.
#pragma once

#include <concepts>
#include <string_view>

#include "engine/base/json_writer.h"

namespace sonde::base {

// Appends to a writer that holds nothing else.
class AttrWriter {
 public:
  explicit AttrWriter(JsonWriter& out) noexcept : out_(out) {}

  // Members that are text already, as they stand; "" adds nothing.
  void members(std::string_view text) {
    if (text.empty()) return;
    separate();
    out_.raw(text);
  }
  // A value that is JSON already.
  void json(std::string_view name, std::string_view value) {
    key(name);
    out_.raw(value);
  }
  void text(std::string_view name, std::string_view utf8) {
    key(name);
    out_.string(utf8);
  }
  void number(std::string_view name, std::integral auto value) {
    key(name);
    out_.number(value);
  }

 private:
  void separate() {
    if (!out_.empty()) out_.raw(',');
  }
  void key(std::string_view name) {
    separate();
    out_.string(name);
    out_.raw(':');
  }

  JsonWriter& out_;
};

}  // namespace sonde::base
