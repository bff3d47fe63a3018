// The spans of a batch. Includes simdjson: for the parsers only.
#pragma once

#include "engine/spool/json_fields.h"
#include "engine/spool/reader.h"

namespace sonde::spool {

class SpanParser {
 public:
  SpanParser(Detail detail, RecentTexts& names, model::Batch& out)
      : out_(out), names_(names), detail_(detail) {}
  void parse(ondemand::array list);

 private:
  void one(ondemand::object object);
  void set(std::size_t key, ondemand::value& value, model::Span& span);
  void attrs(std::string_view token, ondemand::value& value, model::Span& span);
  void rest(std::size_t key, std::string_view token, ondemand::value& value, model::Span& span);
  void mark_ids(ondemand::array list, model::Span& span);

  model::Batch& out_;
  RecentTexts& names_;
  Detail detail_;
  std::size_t expected_ = 0;
};

}  // namespace sonde::spool
