#include "engine/codec/mark_parser.h"

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "engine/base/non_finite.h"
#include "engine/codec/json_fields.h"
#include "engine/codec/json_text.h"
#include "engine/model/mark_fields.h"
#include "engine/model/trace.h"

namespace sonde::codec {

namespace {

namespace fields = model::mark_fields;

constexpr Keys<fields::kCountOfFields> kMark([] {
  std::array<std::string_view, fields::kCountOfFields> quoted;
  for (std::size_t i = 0; i < quoted.size(); ++i) quoted[i] = fields::kKeys[i].quoted();
  return quoted;
}());

}  // namespace

void MarkParser::parse(ondemand::array list) {
  for (auto element : list) one(must(must(std::move(element)).get_object()));
}

void MarkParser::one(ondemand::object object) {
  model::Mark& mark = out_.marks.emplace_back();
  std::string_view type, token, non_finite;  // they may stand in any order
  for (auto result : object) {
    auto&& field = must(std::move(result));
    ondemand::value& value = field.value();
    const std::string_view text = token_of(value);
    switch (kMark.find(field.key().raw(), expected_)) {
      case fields::kId:
        mark.id = id_of(text);
        break;
      case fields::kSpanId:
        mark.span_id = string_of(text) == fields::kNoSpan ? base::Id{} : id_of(text);
        break;
      case fields::kName:
        mark.name = names_.get(string_of(text), out_.arena);
        break;
      case fields::kValueType:
        type = string_of(text);
        break;
      case fields::kValue:
        token = trim(text);
        break;
      case fields::kAttrs:
        mark.attrs = members_of(value, out_.arena);
        break;
      case fields::kTime:
        mark.ts_ns = integer_of(text);
        break;
      case fields::kKind:
        mark.summary = string_of(text) == fields::kSummary;
        break;
      case fields::kNonFinite:
        non_finite = text;
        break;
      default:
        break;
    }
  }
  if (!mark.id || mark.name.data() == nullptr) refuse("a mark has no id or no name");
  if (token == "null") {
    // NaN if the file does not say which number it stands for.
    const bool named = non_finite.starts_with('"');
    mark.real = base::non_finite_named(named ? string_of(non_finite) : std::string_view());
  } else {
    value(type, token, mark);
  }
}

// Follows value_type only where the value agrees with it.
void MarkParser::value(std::string_view type, std::string_view token, model::Mark& mark) {
  if (token == "true" || token == "false") {
    mark.type = model::ValueType::kBool;
    mark.integer = token == "true";
  } else if (token.starts_with('"')) {
    const std::string_view body = string_of(token);
    if (type == "float" && non_finite_of(body, mark.real)) {
      mark.type = model::ValueType::kFloat;
    } else {
      mark.type = model::ValueType::kString;
      if (!unescape(body, out_.arena, mark.text)) refuse("a string has an illegal escape");
    }
  } else if (type == "int" && parse_integer(token, mark.integer)) {
    mark.type = model::ValueType::kInt;
  } else if (!parse_real(token, mark.real)) {
    refuse("a mark has no value");
  } else if (type == "int" && token.find_first_of(".eE") == std::string_view::npos) {
    mark.type = model::ValueType::kInt;
    mark.text = out_.arena.copy(token);
  }
}

}  // namespace sonde::codec
