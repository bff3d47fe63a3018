// What the fields of a mark are called, wherever marks are written or read.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "engine/model/json_key.h"
#include "engine/model/trace.h"

namespace sonde::model::mark_fields {

// In the order in which the spool has them. Other forms have some of them.
enum Field : std::size_t {
  kId,
  kSpanId,
  kName,
  kValueType,
  kValue,
  kAttrs,
  kTime,
  kKind,
  kNonFinite,  // only where the value is null
  kCountOfFields
};
inline constexpr std::array<JsonKey, kCountOfFields> kKeys = {
    JsonKey(R"(,"id":)"),         JsonKey(R"(,"span_id":)"), JsonKey(R"(,"name":)"),
    JsonKey(R"(,"value_type":)"), JsonKey(R"(,"value":)"),   JsonKey(R"(,"attrs":)"),
    JsonKey(R"(,"ts_ns":)"),      JsonKey(R"(,"kind":)"),    JsonKey(R"(,"value_nonfinite":)")};

inline constexpr std::string_view kNoSpan = "root";  // stands for the id of the span
inline constexpr std::string_view kSummary = "summary";

constexpr std::string_view kind_name(const Mark& mark) noexcept {
  return mark.summary ? kSummary : "point";
}

// JSON has no such number: the value is null, and kNonFinite says what it is.
inline bool is_non_finite(const Mark& mark) noexcept {
  return mark.type == ValueType::kFloat && !std::isfinite(mark.real);
}

}  // namespace sonde::model::mark_fields
