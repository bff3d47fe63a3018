// The marks of a batch. Includes simdjson: for the parsers only.
#pragma once

#include <cstddef>
#include <string_view>

#include "engine/codec/json_fields.h"
#include "engine/model/trace.h"

namespace sonde::codec {

class MarkParser {
 public:
  MarkParser(RecentTexts& names, model::Batch& out) : out_(out), names_(names) {}
  void parse(ondemand::array list);

 private:
  void one(ondemand::object object);
  void value(std::string_view type, std::string_view token, model::Mark& mark);

  model::Batch& out_;
  RecentTexts& names_;
  std::size_t expected_ = 0;
};

}  // namespace sonde::codec
