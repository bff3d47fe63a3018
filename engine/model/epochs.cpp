#include "engine/model/epochs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "engine/base/id.h"
#include "engine/model/runs.h"
#include "engine/model/trace.h"

namespace sonde::model {

Epochs::Epochs(std::span<const Span> spans, const Runs& runs) {
  std::vector<const Span*> by_start;
  by_start.reserve(spans.size());
  for (const Span& span : spans) by_start.push_back(&span);
  std::stable_sort(by_start.begin(), by_start.end(),
                   [](const Span* a, const Span* b) { return a->start_ns < b->start_ns; });
  std::map<std::tuple<std::size_t, std::int32_t, std::int32_t>, std::size_t> counts;
  for (const Span* span : by_start) {
    const std::size_t run = runs.run_of(*span);
    std::size_t& count = counts[{run, span->rank, span->pid}];
    const Epoch epoch{span->index, span->rank, run, count, 0, span->pid};
    if (by_id_.try_emplace(span->id, epoch).second) ++count;
  }
}

Epoch* Epochs::find(const base::Id& id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &found->second;
}

Epoch& Epochs::unknown(const base::Id& id) {
  const auto [found, is_new] = by_id_.try_emplace(id);
  if (is_new) found->second.order = unknown_++;
  return found->second;
}

}  // namespace sonde::model
