// The spans of a batch. Includes simdjson: for the parsers only.
#pragma once

#include <cstddef>
#include <string_view>

#include "engine/codec/detail.h"
#include "engine/codec/json_fields.h"
#include "engine/model/trace.h"

namespace sonde::codec {

class SpanParser {
 public:
  SpanParser(Detail detail, RecentTexts& names, model::Batch& out)
      : out_(out), names_(names), detail_(detail) {}
  void parse(ondemand::array list);

 private:
  void one(ondemand::object object);
  template <typename One>
  void set(std::string_view token, ondemand::value& value, model::Span& span);
  void attrs(std::string_view token, ondemand::value& value, model::Span& span);
  void mark_ids(ondemand::array list, model::Span& span);

  model::Batch& out_;
  RecentTexts& names_;
  Detail detail_;
  std::size_t expected_ = 0;
};

}  // namespace sonde::codec
