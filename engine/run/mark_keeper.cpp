#include "engine/run/mark_keeper.h"

#include <cstddef>
#include <string>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/id.h"
#include "engine/model/trace.h"

namespace sonde::run {

void MarkKeeper::keep(const model::Mark& mark) {
  constexpr std::size_t kPerSpan = 64, kInAll = 100'000;
  auto& kept = by_span_[mark.span_id];
  if (kept.size() >= kPerSpan) {
    kept.pop_front();
    --kept_;
  }
  if (kept_ >= kInAll) {  // their spans never close here; forgetting all of them bounds the memory
    by_span_.clear();
    kept_ = 0;
    return;
  }
  kept.push_back({mark, std::string(mark.name), std::string(mark.text), std::string(mark.attrs)});
  ++kept_;
}

std::vector<model::Mark> MarkKeeper::take(const base::Id& span, base::Arena& arena) {
  std::vector<model::Mark> out;
  const auto found = by_span_.find(span);
  if (found == by_span_.end()) return out;
  for (OwnedMark& owned : found->second) {
    owned.mark.name = arena.copy(owned.name);
    owned.mark.text = arena.copy(owned.text);
    owned.mark.attrs = arena.copy(owned.attrs);
    out.push_back(owned.mark);
  }
  kept_ -= found->second.size();
  by_span_.erase(found);
  return out;
}

}  // namespace sonde::run
