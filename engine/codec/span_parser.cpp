#include "engine/codec/span_parser.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "engine/base/attr_names.h"
#include "engine/base/json_members.h"
#include "engine/base/level_names.h"
#include "engine/codec/detail.h"
#include "engine/codec/json_fields.h"
#include "engine/model/span_fields.h"
#include "engine/model/trace.h"

namespace sonde::codec {

namespace {

using model::Kind;

constexpr std::size_t kFields = model::field_count<model::kSpool>();
constexpr Keys<kFields> kSpan([] {
  std::array<std::string_view, kFields> quoted;
  std::size_t at = 0;
  model::for_each_field<model::kSpool>([&]<typename One>(One) { quoted[at++] = One::quoted(); });
  return quoted;
}());
// {"timing":"dispatch"}
constexpr std::size_t kShortestOfUse = base::kTimingAttr.size() + base::kDispatch.size() + 7;

// Spans whose attributes are needed even where only times are wanted: they describe the run, or say
// that an epoch was cut short or a step skipped. True as long as the name is not known, because it
// comes after the attributes.
bool tells_more(std::string_view name) {
  return name.data() == nullptr || name == base::kEpoch || name == base::kStep ||
         name == base::kBatch || name.ends_with(".session");
}

}  // namespace

void SpanParser::parse(ondemand::array list) {
  for (auto element : list) one(must(must(std::move(element)).get_object()));
}

void SpanParser::one(ondemand::object object) {
  model::Span& span = out_.spans.emplace_back();
  for (auto result : object) {
    auto&& field = must(std::move(result));
    ondemand::value& value = field.value();
    const std::size_t key = kSpan.find(field.key().raw(), expected_);
    const std::string_view token = token_of(value);
    model::visit_field_at<model::kSpool>(key,
                                         [&]<typename One>(One) { set<One>(token, value, span); });
  }
  if (!span.id || span.name.data() == nullptr) refuse("a span has no id or no name");
}

template <typename One>
void SpanParser::set(std::string_view token, ondemand::value& value, model::Span& span) {
  if constexpr ((One::kForms & model::kTimings) == 0) {
    if (detail_ == Detail::kTimings) return;
  }
  if constexpr (One::kKind == Kind::kId || One::kKind == Kind::kParent) {
    One::of(span) = id_of(token);
  } else if constexpr (One::kKind == Kind::kName) {
    One::of(span) = names_.get(string_of(token), out_.arena);
  } else if constexpr (One::kKind == Kind::kMembers) {
    attrs(token, value, span);
  } else if constexpr (One::kKind == Kind::kMarkIds) {
    mark_ids(must(value.get_array()), span);
  } else if constexpr (One::kKind == Kind::kOptional) {
    One::of(span) = optional_of(token);
  } else if constexpr (One::kKind == Kind::kEnd) {
    One::of(span) = token.starts_with('n') ? model::kNone : integer_of(token);
  } else {
    read_number(token, One::of(span));
  }
}

// Where only timings are wanted, keeps the attributes that change their meaning.
void SpanParser::attrs(std::string_view token, ondemand::value& value, model::Span& span) {
  if (detail_ != Detail::kTimings || tells_more(span.name)) {
    span.attrs = members_of(value, out_.arena);
    return;
  }
  if (!token.starts_with('{')) return;
  ondemand::object object = must(value.get_object());
  const std::string_view text = must(object.raw_json());
  if (text.size() < kShortestOfUse) return;
  const std::string_view members = text.substr(1, text.size() - 2);
  for (const std::string_view name : {base::kTimingAttr, base::kHintAttr}) {
    // The text search is fast and rules out most spans, but may find the name in a value.
    if (text.find(name) == std::string_view::npos || !base::find_member(members, name)) continue;
    span.attrs = out_.arena.copy(members);
    return;
  }
}

void SpanParser::mark_ids(ondemand::array list, model::Span& span) {
  span.first_mark_id = static_cast<std::uint32_t>(out_.mark_ids.size());
  for (auto element : list) {
    auto&& value = must(std::move(element));
    out_.mark_ids.push_back(id_of(token_of(value)));
  }
  span.mark_id_count = static_cast<std::uint32_t>(out_.mark_ids.size()) - span.first_mark_id;
}

}  // namespace sonde::codec
