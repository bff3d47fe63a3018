#include "engine/run/mark_keeper.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/id.h"
#include "engine/model/trace.h"

namespace sonde::run {

void MarkKeeper::keep(const model::Mark& mark) {
  constexpr std::size_t kPerSpan = 64, kInAll = 100'000;
  auto& [kept, dropped] = by_span_[mark.span_id];
  if (kept.size() >= kPerSpan) {
    ++dropped;
    if (mark.ts_ns < kept.front().mark.ts_ns) return;
    kept.pop_front();
    --kept_;
  }
  if (kept_ >= kInAll) {  // their spans never close here; forgetting all of them bounds the memory
    by_span_.clear();
    kept_ = 0;
    return;
  }
  const auto later = [](std::int64_t ts_ns, const OwnedMark& each) {
    return ts_ns < each.mark.ts_ns;
  };
  const auto place = std::upper_bound(kept.begin(), kept.end(), mark.ts_ns, later);
  kept.insert(place,
              {mark, std::string(mark.name), std::string(mark.text), std::string(mark.attrs)});
  ++kept_;
}

MarkKeeper::Taken MarkKeeper::take(const base::Id& span, base::Arena& arena) {
  Taken out;
  const auto found = by_span_.find(span);
  if (found == by_span_.end()) return out;
  for (OwnedMark& owned : found->second.kept) {
    owned.mark.name = arena.copy(owned.name);
    owned.mark.text = arena.copy(owned.text);
    owned.mark.attrs = arena.copy(owned.attrs);
    out.marks.push_back(owned.mark);
  }
  out.dropped = found->second.dropped;
  kept_ -= found->second.kept.size();
  by_span_.erase(found);
  return out;
}

}  // namespace sonde::run
