// A step like the one before it, in a loop over one loader that trains: fetch, forwards, backwards,
// an optimizer's step, and nothing else is open or recorded. Nearly all steps of nearly all runs
// are. What they mean is known, so their events skip every question that others are asked; for the
// same events those would come to the same.
#pragma once

#include "engine/hook/training.h"

namespace sonde::hook {

// Nobody else has recorded, opened or closed anything since the last event of a plain step, and
// none of those is under way.
inline bool Training::goes_on(Here here) const noexcept {
  const std::uint32_t depth = here.stack.depth.load(std::memory_order_relaxed);
  if (!plain_ || depth != expected_depth_) return false;
  const record::OpenScope& top = here.stack.stack[depth - 1];
  const std::uint64_t other = (here.thread.lane->next_sequence ^ expected_) | optimizer_.serial |
                              (top.flags.load(std::memory_order_relaxed) & record::kSlotClosed);
  return other == 0 && !running_;
}

// What runs now belongs to the step.
inline void Training::place_plainly() noexcept {
  pend_ = watch_ = decide_ = false;
  fetched_ = false;
  step_pass_->used_ = true;
  if (!leaves_.empty()) settle();
}

// It is trained with.
inline void Training::prove_plainly() noexcept {
  proven_ = true;
  trains_in_eval_ = trains_in_eval_ || (hinted_ && !bare_);
  step_pass_->unproven_ = false;
}

}  // namespace sonde::hook
