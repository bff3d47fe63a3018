// Where a forward belongs.
#include <cstddef>

#include "engine/hook/evidence.h"
#include "engine/hook/judge.h"
#include "engine/hook/leaves.h"
#include "engine/hook/pass.h"
#include "engine/hook/verdict.h"

namespace sonde::hook {

// Rule 1: what an optimizer owns is trained. Rule 2: with gradients off it is evaluated; evaluation
// mode is a hint, which is worth nothing once a model has been trained in that mode.
Reading read_forward(const Forward& forward, bool trains_in_eval) noexcept {
  const bool trainable = forward.owned != Owned::kNo;
  const bool sure = trainable && !forward.gradients;
  return {.evaluates = sure || (trainable && !forward.training && !trains_in_eval),
          .sure = sure,
          .foreign = !trainable && !forward.gradients};
}

namespace {

bool has_forward(const Evidence& seen) noexcept { return seen.leaves.has(Leaf::Kind::kForward); }
bool has_backward(const Evidence& seen) noexcept { return seen.leaves.has(Leaf::Kind::kBackward); }

// Can the leaves be moved? A mark between them stays where it is.
bool movable(const Evidence& seen) noexcept {
  return seen.leaves.after_stuck() == 0 && seen.none_opened;
}

bool only_loads_to_move(const Evidence& seen) noexcept {
  return !seen.leaves.empty() && seen.leaves.only_loads() && movable(seen);
}

// Rule 3: the validation of a pass is open. Does this forward not belong to it?
bool trains_again(const Evidence& seen) noexcept {
  const PassEvidence& check = *seen.check;
  if (!seen.gradients || !check.batches.sure) return false;
  if (check.fetch.off) return true;
  if (!seen.training) return false;
  return check.fetch.drained || seen.outer_trains ||
         (seen.knows_training && seen.leader == nullptr);
}

// Rules 2 and 3, where the validation of a pass is open.
Verdict in_check(const Evidence& seen) noexcept {
  const PassEvidence& check = *seen.check;
  // On a batch that was fetched with gradients on, the first forward and every forward after one
  // with gradients may be validation or training: the next backward tells.
  const std::size_t load = seen.leaves.find(check.load_at);
  const bool looked_at = seen.leaves.only_sure_after(load);
  const bool open = !check.fetch.off && load < seen.leaves.size() && !looked_at;
  if (open || !trains_again(seen))
    return {.move = Move::kStayInCheck, .event = {.pend = true, .watch = seen.gradients}};
  // The first batch was fetched with gradients on. Models ran on it with gradients off, and now it
  // is trained with.
  if (seen.leader == nullptr && !check.fetch.off && looked_at)
    return {.move = Move::kTrainCheck, .next = Question::kOwedStep};
  // Rule 1: forwards at the end of the validation whose module no optimizer trains (a teacher)
  // belong to the step.
  if (const std::size_t first = seen.leaves.first_foreign(); first < seen.leaves.size())
    return {.move = Move::kLeaveCheck, .next = Question::kOwedStep, .about = {.first = first}};
  return {.move = Move::kPauseChecks, .next = Question::kOwedStep};
}

// Rule 3, in a step on a batch that is not known to be trained with.
Verdict in_unproven_pass(const Evidence& seen) noexcept {
  const PassEvidence& pass = *seen.fetched;
  // Gradients that are off speak for themselves; otherwise a backward will show whether it is a
  // step.
  const bool checks = &pass == seen.last && seen.reading.evaluates && !seen.loader_trained &&
                      seen.leaves.only_loads();
  const bool turned = checks && seen.step_innermost;
  return {.move = checks ? Move::kTurnIntoCheck : Move::kStay,
          .event = {.pend = true,
                    .watch = seen.gradients && (pass.evaluates || turned || can_promote(seen))}};
}

// Rule 3, in a step on a batch of a loader that is trained with.
Verdict in_pass_step(const Evidence& seen, bool room_made) noexcept {
  const PassEvidence& pass = *seen.fetched;
  const Reading& reading = seen.reading;
  if (!room_made) {
    // Another pass has fetched a batch since: the next fetch tells whether that was a validation.
    if (seen.last != nullptr && seen.last != &pass && !seen.last->trained &&
        !seen.last->evaluates && !seen.proven)
      return {.event = {.pend = true}};
    // Evaluation mode and gradients off, before anything is done with the batch.
    if (reading.sure && !seen.training && !seen.trains_in_eval && !seen.proven)
      return {.move = Move::kMakeRoomForCheck, .next = Question::kStepAfterRoom};
  }
  // The batch may have been fetched for nothing.
  const bool pend = (reading.sure || pass.fetch.drained) && !seen.proven;
  return {.event = {.pend = pend}, .after = {.settle = !pend}};
}

// A step is under way.
Verdict in_step(const Evidence& seen) noexcept {
  if (seen.fetched != nullptr && !seen.fetched->trained) return in_unproven_pass(seen);
  if (seen.fetched != nullptr) return in_pass_step(seen, false);
  // Rule 5.
  const bool pend = !seen.proven && (seen.leader == nullptr || !seen.leaves.empty());
  return {.event = {.pend = pend, .watch = pend && seen.gradients && has_forward(seen)}};
}

// Rules 2 and 9, where a validation without a loader is open.
Verdict in_look(const Evidence& seen) noexcept {
  if (seen.reading.evaluates || seen.reading.foreign) {
    const bool sure = seen.reading.sure;
    return {.move = sure ? Move::kStayInLook : Move::kStay,
            .event = {.pend = !sure, .watch = seen.gradients}};
  }
  // Forwards in the look had gradients, so a backward may still go through them. Until then this
  // forward is in the look, too.
  if (seen.leaves.has_hinted() && seen.gradients) return {.event = {.pend = true, .watch = true}};
  // Rule 1: forwards at the end of the look whose module no optimizer trains (a teacher) belong to
  // the step.
  return {.move = Move::kLeaveLook,
          .next = Question::kOwedStep,
          .about = {.first = seen.leaves.first_foreign()}};
}

// Rule 4: the loader is exhausted, but batches are left. Is this forward on the next of them?
bool forward_is_on_left(const Evidence& seen) noexcept {
  if (!may_be_on_left(seen)) return false;
  // Otherwise another optimizer may still step.
  if (!seen.cycle.full() && (seen.cycle.known() || !seen.reading.sure)) return false;
  return !seen.reading.evaluates || seen.leader->on_last();
}

// Rule 3: batches come from a loader, and the step on the last one is over or has not begun.
Verdict with_loader(const Evidence& seen) noexcept {
  const bool gradients = seen.gradients;
  if (!seen.step_open) {
    if (seen.taken.step || seen.inside_scope) return {.after = {.settle = true}};  // rule 8
    const bool loads = only_loads_to_move(seen) && seen.stands_free;
    if (seen.reading.evaluates)
      return {.move = Move::kLookFromLoads,
              .about = {.loads = loads},
              .event = {.pend = gradients, .watch = gradients}};
    // Nothing was fetched for this forward, so it may be a look.
    return {.move = Move::kStepFromLoads,
            .about = {.loads = loads},
            .event = {.pend = true},
            .after = {.settle = true}};
  }
  if (!seen.reading.evaluates && !seen.reading.foreign) {
    // If the leading optimizer steps again, this forward was on the next of the batches left.
    const bool pend = seen.leader->fetch.drained && !seen.cycle.complete();
    return {.event = {.pend = pend}, .after = {.settle = !pend}};
  }
  // Forwards with gradients off after the optimizer step are a validation, whatever the model.
  if (seen.cycle.full() && seen.step_innermost)
    return {.move = Move::kEndStepForLook, .event = {.pend = gradients, .watch = gradients}};
  // This forward may be a part of the step, for another optimizer; the next fetch will tell.
  return {.move = seen.leaves.full() ? Move::kCarveLongLook : Move::kStay, .event = {.pend = true}};
}

// Rules 2 and 5: no loader feeds the loop, and no step is open.
Verdict without_step(const Evidence& seen) noexcept {
  const bool known = seen.knows_training || seen.owned;
  const bool gradients = seen.gradients;
  if (seen.reading.evaluates) {
    if (has_backward(seen)) return {.event = {.pend = true}};  // in the middle of an accumulation
    // A backward would make this forward training, whatever the mode.
    if (gradients && (!known || seen.inside_scope || has_forward(seen)))
      return {.event = {.pend = true, .watch = true}};
    if (!known || seen.taken.validation) return {.after = {.settle = true}};  // rule 8
    return {.move = Move::kLookFromLoads,
            .about = {.loads = only_loads_to_move(seen)},
            .event = {.pend = gradients, .watch = gradients}};
  }
  if ((seen.counted_open || seen.knows_training) && !seen.inside_scope)
    return {.move = Move::kBeginWithLeaves, .event = {.pend = true, .watch = gradients}};
  // If a backward follows, this is the first iteration. If the leaves are full and no backward
  // came, the forwards are a rollout.
  const bool rollout = known && seen.leaves.full() && !has_backward(seen) && movable(seen);
  return {.move = rollout ? Move::kLookFromRollout : Move::kStay,
          .event = {.pend = true, .watch = gradients && !rollout && has_forward(seen)}};
}

// Rule 5: no loader feeds the loop.
Verdict without_loader(const Evidence& seen) noexcept {
  if (seen.taken.step) return {.after = {.settle = true}};  // rule 8
  if (!seen.step_open) return without_step(seen);
  const bool gradients = seen.gradients;
  if (seen.cycle.complete() || (seen.scope_begun && !seen.cycle.known())) {
    if (!seen.reading.evaluates || (seen.scope_begun && gradients))
      return {.move = Move::kNextIteration, .event = {.pend = true}};
    if (seen.scope_begun)
      return {.move = Move::kEndStepBelowScope, .event = {.pend = gradients, .watch = gradients}};
    if (!seen.step_innermost) return {.after = {.settle = true}};
    return {.move = Move::kEndStepForLook, .event = {.pend = gradients, .watch = gradients}};
  }
  // The next optimizer step tells whether another iteration has begun.
  Verdict verdict{
      .event = {.pend = true, .watch = gradients && (seen.reading.evaluates || has_forward(seen))}};
  if (!seen.leaves.full()) return verdict;
  // The leaves are full: so many spans cannot all be the end of the last iteration.
  if (!has_backward(seen)) {
    verdict.move = Move::kCarveLongLook;
  } else if (movable(seen)) {
    verdict.move = Move::kBeginAmongLeaves;
    verdict.after.prove = verdict.after.settle = true;
  }
  return verdict;
}

}  // namespace

Verdict judge_forward(const Evidence& seen, Question from) noexcept {
  switch (from) {
    case Question::kValidation:
      if (seen.check != nullptr) return in_check(seen);
      [[fallthrough]];
    case Question::kOwedStep:
      if (seen.owed != nullptr && !seen.reading.evaluates && !seen.look_open)
        return {.move = Move::kOpenOwedStep, .next = Question::kStep};
      [[fallthrough]];
    case Question::kStep:
      if (seen.step_open && !seen.done) return in_step(seen);
      if (seen.look_open) return in_look(seen);
      [[fallthrough]];
    case Question::kLoader:
      if (forward_is_on_left(seen))
        return {.move = Move::kNextLeft,
                .next = seen.leader->on_last() ? Question::kWithoutLoader : Question::kWithLoader};
      return seen.leader != nullptr ? with_loader(seen) : without_loader(seen);
    case Question::kStepAfterRoom:
      if (seen.step_open) return in_pass_step(seen, true);
      return {.move = Move::kOpenLook};
    case Question::kWithLoader:
      return with_loader(seen);
    case Question::kWithoutLoader:
      return without_loader(seen);
    case Question::kNothing:
    case Question::kEpochOfFetch:
      break;
  }
  return not_asked();
}

}  // namespace sonde::hook
