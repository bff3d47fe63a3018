// What becomes of the open step, and which passes are trained with in it.
#include <cstddef>
#include <cstdint>

#include "engine/hook/judge.h"
#include "engine/hook/leaves.h"
#include "engine/hook/pass.h"

namespace sonde::hook {

StepOfFetch judge_step_of_fetch(const FetchedInStep& seen) noexcept {
  // Gradients are being accumulated, or a scope of the program inside the step is still open.
  if (seen.step_open && !(seen.done && seen.closable)) return StepOfFetch::kPresent;
  return seen.taken ? StepOfFetch::kTheirs : StepOfFetch::kNext;  // rule 8
}

NumberedStep judge_numbered_step(const AnnouncedStep& seen) noexcept {
  if (seen.taken) return NumberedStep::kTheirs;
  if (!seen.step_open) return NumberedStep::kNext;
  if (!seen.done) return NumberedStep::kPresent;
  return seen.closable ? NumberedStep::kNext : NumberedStep::kTheirs;
}

Room judge_room(const StepBeforeCheck& seen) noexcept {
  if (!seen.innermost) return Room::kStepGoesOn;
  if (seen.done) return Room::kStepEnds;
  return seen.proven || !seen.only_fetches || !seen.untouched ? Room::kStepGoesOn
                                                              : Room::kStepWaits;
}

bool updates_by_hand(const EndedBackward& seen) noexcept {
  const bool optimizer = seen.in_optimizer || seen.optimizer_stepped || seen.optimizer_owns;
  return !seen.announced && !optimizer && seen.step_open;
}

bool is_proven(const PassEvidence& pass, bool innermost, bool stray) noexcept {
  return !pass.evaluates && (innermost || (pass.batches.unproven && !stray));
}

BeforeClosure judge_before_closure(const Leaves& leaves, bool step_done) noexcept {
  if (!leaves.unused()) return BeforeClosure::kMayBeUsed;
  return step_done ? BeforeClosure::kWasLook : BeforeClosure::kIsOver;
}

std::size_t first_in_step(const Leaves& leaves, std::uint64_t parent) noexcept {
  const bool free = !leaves.empty() && leaves.parent() == parent;
  return free ? leaves.after_stuck() : leaves.size();
}

}  // namespace sonde::hook
