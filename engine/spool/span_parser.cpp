#include "engine/spool/span_parser.h"

#include "engine/model/runs.h"

namespace sonde::spool {

namespace {

enum SpanKey : std::size_t {
  kId,
  kName,
  kParentId,
  kIndex,
  kStart,
  kEnd,
  kCpu,
  kGpu,
  kMemory,
  kThread,
  kPid,
  kRank,
  kAttrs,
  kMarkIds,
  kSpanKeys
};
constexpr Keys<kSpanKeys> kSpan({"id\"", "name\"", "parent_id\"", "index\"", "start_ns\"",
                                 "end_ns\"", "cpu_ns\"", "gpu_ns\"", "memory_peak_bytes\"",
                                 "thread_id\"", "pid\"", "rank\"", "attrs\"", "mark_ids\""});
constexpr std::size_t kShortestOfUse = std::string_view(R"({"timing":"dispatch"})").size();

// Whose attributes are of interest also where only times are wanted: what the session says of the
// run, that an epoch was cut short, that a step was skipped. A name that comes behind the
// attributes is not known yet.
bool tells_more(std::string_view name) {
  return name.data() == nullptr || name == "epoch" || name == "step" || name == "batch" ||
         name == model::kSessionName;
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
    set(kSpan.find(field.key().raw(), expected_), value, span);
  }
  if (!span.id || span.name.data() == nullptr) refuse("a span has no id or no name");
}

void SpanParser::set(std::size_t key, ondemand::value& value, model::Span& span) {
  const std::string_view token = token_of(value);
  switch (key) {
    case kId:
      span.id = id_of(token);
      break;
    case kName:
      span.name = names_.get(string_of(token), out_.arena);
      break;
    case kParentId:
      span.parent_id = id_of(token);
      break;
    case kIndex:
      span.index = optional_of(token);
      break;
    case kStart:
      span.start_ns = integer_of(token);
      break;
    case kEnd:
      span.end_ns = token.starts_with('n') ? model::kNone : integer_of(token);
      break;
    case kGpu:
      span.gpu_ns = optional_of(token);
      break;
    case kPid:
      span.pid = small_of(token);
      break;
    case kRank:
      span.rank = small_of(token);
      break;
    case kAttrs:
      attrs(token, value, span);
      break;
    default:
      if (detail_ == Detail::kAll) rest(key, token, value, span);
  }
}

// Timings without what says how to read them would mislead.
void SpanParser::attrs(std::string_view token, ondemand::value& value, model::Span& span) {
  if (detail_ == Detail::kAll || tells_more(span.name)) {
    span.attrs = members_of(value, out_.arena);
    return;
  }
  if (!token.starts_with('{')) return;
  ondemand::object object = must(value.get_object());
  const std::string_view text = must(object.raw_json());
  if (text.size() < kShortestOfUse) return;
  for (const std::string_view name : {model::kTimingAttr, model::kHintAttr}) {
    if (text.find(name) == std::string_view::npos) continue;
    span.attrs = out_.arena.copy(text.substr(1, text.size() - 2));
    return;
  }
}

void SpanParser::rest(std::size_t key, std::string_view token, ondemand::value& value,
                      model::Span& span) {
  switch (key) {
    case kCpu:
      span.cpu_ns = optional_of(token);
      break;
    case kMemory:
      span.memory_peak_bytes = optional_of(token);
      break;
    case kThread:
      span.thread_id = thread_of(token);
      break;
    case kMarkIds:
      mark_ids(must(value.get_array()), span);
      break;
    default:
      break;
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

}  // namespace sonde::spool
