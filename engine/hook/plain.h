// Plain steps: a step like the one before it, in a loop over one loader that trains. It has a
// fetch, forwards, backwards and an optimizer's step, and nothing else is open or recorded. Nearly
// all steps are plain. What their events mean is known, so they skip the questions of judge.h,
// whose answers would be the same.
#pragma once

#include <cstdint>

#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/training.h"
#include "engine/record/stack.h"

namespace sonde::hook {

// Does a plain step go on? Nothing else has been recorded, opened or closed since its last event,
// and no event is under way.
inline bool Training::goes_on(Here here) const noexcept {
  const std::uint32_t depth = record::depth_of(here.stack);
  if (!seen_.plain || depth != seen_.others.depth) return false;
  const std::uint64_t other = (record::next_sequence(here.thread) ^ seen_.others.sequence) |
                              seen_.optimizers.serial() |
                              std::uint64_t{record::top_of(here.stack, depth).is_closed()};
  return other == 0 && !seen_.running.scope;
}

// What runs now belongs to the step.
inline void Training::place_plainly() noexcept {
  seen_.running.pend = seen_.running.watch = seen_.running.decide = false;
  seen_.passes.fetched = false;
  seen_.step.pass()->batches.used = true;
  if (!seen_.leaves.empty()) settle(seen_);
}

// The batch of this step is trained with.
inline void Training::prove_plainly() noexcept {
  seen_.step.note_proven();
  seen_.learnt.trains_in_eval =
      seen_.learnt.trains_in_eval || (seen_.learnt.hinted && !seen_.learnt.bare);
  seen_.step.pass()->batches.unproven = false;
}

}  // namespace sonde::hook
