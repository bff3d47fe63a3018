// A step like the one before it, in a loop over one loader that trains: fetch, forwards, backwards,
// an optimizer's step, and nothing else is open or recorded. Nearly all steps of nearly all runs
// are. What they mean is known, so their events skip every question that others are asked; for the
// same events those would come to the same.
#pragma once

#include "engine/hook/training.h"
#include "engine/record/stack.h"

namespace sonde::hook {

// Nothing else has been recorded, opened or closed since the last event of a plain step, and none
// of those is under way.
inline bool Training::goes_on(Here here) const noexcept {
  const std::uint32_t depth = record::depth_of(here.stack);
  if (!plain_ || depth != others_.depth) return false;
  const std::uint64_t other =
      (record::next_sequence(here.thread) ^ others_.sequence) | optimizers_.serial() |
      std::uint64_t{record::scope_at(here.stack, depth - 1).is_closed()};
  return other == 0 && !running_.scope;
}

// What runs now belongs to the step.
inline void Training::place_plainly() noexcept {
  running_.pend = running_.watch = running_.decide = false;
  passes_.fetched = false;
  step_.pass->used = true;
  if (!leaves_.empty()) settle();
}

// It is trained with.
inline void Training::prove_plainly() noexcept {
  step_.proven = true;
  learnt_.trains_in_eval = learnt_.trains_in_eval || (learnt_.hinted && !learnt_.bare);
  step_.pass->unproven = false;
}

}  // namespace sonde::hook
