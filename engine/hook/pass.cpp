#include "engine/hook/pass.h"

#include <algorithm>
#include <cstdint>

#include "engine/hook/moment.h"
#include "engine/record/stack.h"

namespace sonde::hook {

Pass::Pass(Here here, const void* source, std::uint64_t now) noexcept {
  this->source = source;
  made_ns = now;
  made_at = record::next_sequence(here.thread);
  made_depth = record::depth_of(here.stack);
}

void Pass::begin(Training& on, Hint hint, std::uint64_t sequence) noexcept {
  training = &on;
  role = Role::kNone;
  orphan = had_member = false;
  failed = trained = evaluates = sure = nested = false;
  used = ever_used = drained = supersedes = waits = false;
  off = hint == Hint::kGradientsOff;
  ahead = idle = group = 0;
  fetches = step_fetch = steps = 0;
  per_step = 1;
  first_at = sequence;
}

void Pass::note_step() noexcept {
  // Before the second step, batches were fetched ahead.
  if (const std::uint64_t others = steps == 1 ? 1 + ahead : step_fetch; steps > 0)
    per_step = static_cast<std::uint32_t>(fetches > others ? fetches - others : 1);
  step_fetch = fetches;
  ++steps;
}

void Pass::note_use() noexcept {
  used = true;
  if (ever_used) return;
  ever_used = true;
  group = idle;
  ahead = idle > 1 && idle <= kFurthestAhead ? idle - 1 : 0;
}

// The last fetch, which gave no batch, is counted in `idle` and `fetches`.
std::uint32_t Pass::count_unfinished() noexcept {
  if (!ever_used) return idle - 1;
  if (ahead == 0) {
    // Where batches are taken in groups, the last ones are a smaller group, for one step.
    const bool rest = group > 1 && idle > 1 && idle - 1 < group;
    if (rest) per_step = idle - 1;
    return rest ? per_step : 0;
  }
  if (steps <= 1) return ahead;
  const std::uint64_t before = step_fetch - 1;
  return static_cast<std::uint32_t>(fetches - 1 -
                                    (before - std::min<std::uint64_t>(before, ahead)));
}

}  // namespace sonde::hook
