// Spans in one line each.
#pragma once

#include <string_view>

#include "engine/model/trace.h"

namespace sonde::testing {

// Ids are small numbers; parent 0 is none; times in microseconds.
inline model::Span span(std::uint64_t id, std::uint64_t parent, std::string_view name,
                        std::int64_t start_us, std::int64_t end_us,
                        std::int64_t index = model::kNone) {
  model::Span out;
  out.id = {0, id};
  out.parent_id = {0, parent};
  out.name = name;
  out.index = index;
  out.start_ns = start_us * 1000;
  out.end_ns = end_us == model::kNone ? model::kNone : end_us * 1000;
  return out;
}

// The root span of a process, as an API with this session's name records it.
inline model::Span session(std::uint64_t id, std::string_view name, std::int64_t start_us,
                           std::int64_t end_us) {
  model::Span out = span(id, 0, name, start_us, end_us);
  out.attrs = R"("pid":1)";
  return out;
}

inline model::Span on_rank(std::int32_t rank, model::Span span) {
  span.rank = rank;
  return span;
}

inline model::Mark mark(std::uint64_t id, std::uint64_t span, std::string_view name, double value) {
  model::Mark out;
  out.id = {1, id};
  out.span_id = {0, span};
  out.name = name;
  out.real = value;
  return out;
}

}  // namespace sonde::testing
