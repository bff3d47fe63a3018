// The table of transitions: what each verdict of judge.h opens, closes and relabels.
#include "engine/hook/transitions.h"

namespace sonde::hook {

// False: a step was to begin, but a scope of the program's reaches across.
bool Transitions::make(Here here, const Verdict& verdict, const Moment& now) {
  Pass* check = passes_.checking();
  switch (verdict.move) {
    // -- it belongs where it is --
    case Move::kStay:
      break;
    case Move::kStayInCheck:
      check->sure = check->sure || running_.reading.sure;
      break;
    case Move::kStayInLook:
      settle_in_look();
      break;
    case Move::kMarkEvaluation:
      step_.pass->evaluates = true;
      break;

    // -- a validation of a pass --
    case Move::kTrainCheck:
      turn_into_training(here, *check, now);
      break;
    case Move::kLeaveCheck:
      leave_check(here, *check, verdict.first, now);
      break;
    case Move::kLeaveUsedCheck: {
      Pass& last = *passes_.last;
      turn_part_into_validation(here, last);
      leave_check(here, last, verdict.first, now);
      break;
    }
    case Move::kPauseChecks:
      pause_checks(here, now);
      break;
    case Move::kTurnIntoCheck: {
      Pass& pass = *step_.pass;
      turn_into_validation(here, pass);
      pass.sure = running_.reading.sure;
      break;
    }
    case Move::kTurnIntoUnused:
      turn_into_validation(here, *step_.pass);
      break;
    case Move::kTurnLastIntoUnused:
      turn_into_validation(here, *passes_.last);
      break;
    case Move::kMakeRoomForCheck:
      make_room_for_check(here, now);
      break;

    // -- a validation without a loader --
    case Move::kOpenLook:
      settle();
      open_look(here, now);
      break;
    case Move::kLookFromLoads:
      begin_look(here, verdict.loads, now);
      if (!verdict.pend) settle_in_look();
      break;
    case Move::kLookFromRollout:
      begin_look(here, true, now);
      settle_in_look();
      break;
    case Move::kLeaveLook:
      leave_look(here, now, verdict.first);
      break;
    case Move::kLeaveUsedLook: {
      const bool hinted = learnt_.hinted;
      const Owner owner = learnt_.owner;
      leave_look(here, now, verdict.first);
      learnt_.hinted = hinted;
      learnt_.owner = owner;
      break;
    }
    case Move::kTurnIntoLook:
      turn_into_look(here, false);
      break;
    case Move::kTurnRestIntoLook:
      turn_into_look(here, true);
      break;
    case Move::kCarveCheck:
      carve_check(here);
      break;
    case Move::kCarveLongCheck:
      carve_check(here);
      settle_in_look();
      break;
    case Move::kEndStepForLook:
      settle();
      close_step(here.thread, now);
      open_look(here, now);
      break;
    case Move::kEndStepBelowScope:
      settle();
      close_around(here.thread, step_.scope, Moment::at(record::above(step_.scope).start_ns()));
      open_look(here, now);
      break;

    // -- a step --
    case Move::kOpenOwedStep:
      open_owed_step(here, now);
      break;
    case Move::kStepFromLoads:
      open_step(here, -1, verdict.loads ? Moment(leaves_.front()) : Moment(now));
      if (verdict.loads) leaves_.move(0, step_.scope.sequence);
      break;
    case Move::kNextLeft:
      settle();
      next_left(here, *passes_.leader(), now);
      break;
    case Move::kNextLeftWithLeaves:
      next_left(here, *passes_.leader(), now);
      break;
    case Move::kNextIteration:
      return next_iteration(here, now);
    case Move::kBeginWithLeaves:
      begin_with_leaves(here, now);
      break;
    case Move::kBeginBehindLeaves:
      begin_behind_leaves(here, now);
      break;
    case Move::kSplitIteration: {
      Pass* pass = step_.pass;
      split_iteration(here, verdict.first);
      if (pass != nullptr && !pass->trained) pass->evaluates = true;
      break;
    }
  }
  return true;
}

bool Transitions::carry_out(Here here, const Verdict& verdict, const Moment& now) {
  const bool made = make(here, verdict, now);
  if (verdict.promote && step_.pass != nullptr && !step_.pass->trained) promote(here, *step_.pass);
  if (verdict.prove) prove();
  if (verdict.settle) settle();
  return made;
}

// The batches that were fetched for this step are trained with.
void Transitions::prove() noexcept {
  step_.proven = learnt_.knows_training = true;
  learnt_.trains_in_eval = learnt_.trains_in_eval || (learnt_.hinted && !learnt_.bare);
  if (Pass* pass = passes_.innermost(); pass != nullptr && !pass->evaluates) pass->trained = true;
  for (Pass* pass : passes_.known) {
    // A batch that came in the middle of an iteration without a loader proves nothing.
    const bool stray = counted_.is_open() && step_.pass != pass;
    if (pass->unproven && !pass->evaluates && !stray) pass->trained = true;
    pass->unproven = false;
  }
}

}  // namespace sonde::hook
