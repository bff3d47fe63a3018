#include "engine/model/mark_index.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "engine/base/id.h"
#include "engine/model/trace.h"

namespace sonde::model {

namespace {

struct BySpan {
  static auto key(const base::Id& id) { return std::tie(id.hi, id.lo); }
  bool operator()(const Mark* a, const Mark* b) const { return key(a->span_id) < key(b->span_id); }
  bool operator()(const Mark* a, const base::Id& b) const { return key(a->span_id) < key(b); }
  bool operator()(const base::Id& a, const Mark* b) const { return key(a) < key(b->span_id); }
};

}  // namespace

MarkIndex::MarkIndex(std::span<const Mark> marks) {
  marks_.reserve(marks.size());
  for (const Mark& mark : marks) marks_.push_back(&mark);
  std::stable_sort(marks_.begin(), marks_.end(), [](const Mark* a, const Mark* b) {
    return a->span_id == b->span_id ? a->ts_ns < b->ts_ns : BySpan{}(a, b);
  });
}

std::span<const Mark* const> MarkIndex::of(const base::Id& span) const {
  const auto [first, last] = std::equal_range(marks_.begin(), marks_.end(), span, BySpan{});
  return {first, last};
}

}  // namespace sonde::model
