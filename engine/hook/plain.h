// Plain steps: a step like the one before it, in a loop over one loader that trains. It has a
// fetch, forwards, backwards and an optimizer's step, and nothing else is open or recorded. Nearly
// all steps are plain. What their events mean is known, so they skip the questions of judge.h,
// whose answers would be the same.
#pragma once

#include <cstdint>

#include "engine/hook/evidence.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/seen.h"
#include "engine/record/stack.h"

namespace sonde::hook {

// Does a plain step go on? Nothing else has been recorded, opened or closed since its last event,
// and no event is under way.
inline bool goes_on(const Seen& seen, Here here) noexcept {
  const std::uint32_t depth = record::depth_of(here.stack);
  if (!seen.plain || depth != seen.others.depth) return false;
  const std::uint64_t other = (record::next_sequence(here.thread) ^ seen.others.sequence) |
                              seen.optimizers.serial() |
                              std::uint64_t{record::top_of(here.stack, depth).is_closed()};
  return other == 0 && !seen.running.scope;
}

// What runs now belongs to the step.
inline void place_plainly(Seen& seen) noexcept {
  seen.running.pend = seen.running.watch = seen.running.decide = false;
  seen.passes.fetched = false;
  seen.step.pass()->batches.used = true;
  if (!seen.leaves.empty()) settle(seen);
}

// The same, for a forward.
inline void place_plainly(Seen& seen, const Forward& forward) noexcept {
  seen.running.reading = {};
  seen.learnt.hinted = false;
  seen.running.module = forward.module;
  seen.learnt.owner = forward.owned == Owned::kYes ? Owner::kOptimizer : Owner::kNone;
  place_plainly(seen);
}

// The batch of this step is trained with.
inline void prove_plainly(Seen& seen) noexcept {
  seen.step.note_proven();
  seen.learnt.trains_in_eval =
      seen.learnt.trains_in_eval || (seen.learnt.hinted && !seen.learnt.bare);
  seen.step.pass()->batches.unproven = false;
}

}  // namespace sonde::hook
