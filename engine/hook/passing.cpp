// Passes over loaders begin, go on, and are left.
#include <utility>

#include "engine/hook/names.h"
#include "engine/hook/training.h"

namespace sonde::hook {

using record::ThreadState;

// A pass that saw an epoch's owner, or another epoch of ours, feeds that one; what looks like
// validation gets a scope of its own in there. Returns whether this fetch is a validation's.
bool Training::begin_pass(Here here, Pass& pass, Hint hint, const Moment& now) {
  pass.begin(*this, hint, record::next_sequence(here.thread));
  // What is open from before is none of a trainer's business.
  const bool announced = claims_.announced > 0;
  const bool evaluates =
      looks_like_validation(hint, learnt_.trains_in_eval, passes_.trained_before(pass.source));
  if (pass.off || !evaluates) keep_what_waits(here, pass);
  const Pass* check = passes_.checking();
  const bool beside = check != nullptr && ends_check(*check, hint);
  if (passes_.peeked != nullptr && was_peek(*passes_.peeked, pass))
    drop_peek(here.thread, *passes_.peeked);
  if (!announced) {
    // Gradients are on again, or the model trains: validations whose iterators live are over.
    if (!evaluates || beside) pause_checks(here, now);
    end_those_before(here, pass, evaluates, now);
  }
  const Levels taken = levels(here.stack);
  const bool inside = taken.epoch || passes_.innermost() != nullptr || counted_.is_open();
  switch (judge_new_pass(evaluates, taken.validation, inside)) {
    case NewPass::kFeedsValidation:
      pass.role = Pass::Role::kMember;
      pass.evaluates = true;
      if (!leaves_.only_loads()) settle();
      break;
    case NewPass::kOpensValidation:
      make_room_for_check(here, now);
      settle();
      close_look(here, now);
      pass.nested = inside;
      own(here, pass, true, now);
      break;
    case NewPass::kFeedsEpoch:
      close_look(here, now);
      pass.nested = true;
      pass.role = Pass::Role::kMember;
      break;
    case NewPass::kOpensEpoch:
      close_look(here, now);
      settle();
      if (step_.is_open_innermost()) close_step(here.thread, now);
      cycle_.reset();
      own(here, pass, false, now);
      break;
  }
  relate(pass);
  return pass.evaluates;
}

// What it begins inside of, and whether it follows a pass over the same loader.
void Training::relate(Pass& pass) {
  passes_.known.push_back(&pass);
  const Pass* outer = passes_.innermost();
  pass.outer_fetches = outer != nullptr ? outer->fetches : 0;
  pass.outer_scope = outer != nullptr ? outer->scope.sequence : 0;
  const bool again =
      pass.role == Pass::Role::kMember && outer != nullptr && outer->begins_anew(pass);
  pass.waits = again && outer->drained && !outer->used;
  pass.supersedes = again && !pass.waits;
  if (pass.waits) {
    pass.ahead = outer->ever_used ? outer->ahead : outer->left;
    pass.ever_used = true;
  }
}

// Passes that this one shows to be over, although their iterators live.
void Training::end_those_before(Here here, const Pass& next, bool next_evaluates,
                                const Moment& now) {
  while (Pass* outer = passes_.innermost()) {
    if (!is_over({.outer = *outer,
                  .next = next,
                  .next_evaluates = next_evaluates,
                  .outer_open = record::is_open(outer->scope),
                  .outer_owed = step_.owed == outer,
                  .outer_fed = passes_.has_fed(*outer, next),
                  .steps_taken = outer->drained && levels(*stack_).step,
                  .done = step_.done}))
      return;
    finish(here.thread, *outer, now);
  }
}

// The next batch of a pass that is under way. Returns whether it is a validation's.
bool Training::resume_pass(Here here, Pass& pass, Hint hint, const Moment& now) {
  if (pass.role == Pass::Role::kOwner && !record::is_open(pass.scope)) drop_closed();
  if (claims_.announced > 0) return true;
  // The batches before it have been trained with, or dropped: this one is fetched instead of them.
  if (pass.waits && (step_.done || !pass.used)) follow(here, pass, now);
  pass.off = hint == Hint::kGradientsOff;
  if (pass.off) keep_what_waits(here, pass);
  pass.had_member = false;
  switch (judge_next_fetch(pass, hint, levels(here.stack).validation)) {
    case NextFetch::kOfValidation:
      if (!leaves_.only_loads()) settle();
      return true;
    case NextFetch::kResumesValidation:
      end_those_before(here, pass, true, now);
      make_room_for_check(here, now);
      settle();
      close_look(here, now);
      if (!levels(here.stack).validation) own(here, pass, true, now);
      return true;
    case NextFetch::kOfLook:
      make_room_for_check(here, now);
      settle();
      open_look(here, now);
      return true;
    case NextFetch::kOfTraining:
      break;
  }
  if (pass.trained) pause_checks(here, now);
  if (pass.trained && counted_.is_open() && record::is_innermost(counted_.scope)) {
    // Its first batch was taken for a look; it is a loop of its own.
    end_counted(here.thread, now);
    own(here, pass, false, now);
    pass.nested = false;
  }
  if (!pass.orphan && !in_epoch(here.stack)) {
    // What it fed is over.
    own(here, pass, false, now);
    pass.nested = false;
  }
  return false;
}

// The last batches of the pass before it have been trained with.
void Training::follow(Here here, Pass& pass, const Moment& now) {
  pass.waits = false;
  if (!step_.done) {
    pass.ever_used = false;
    pass.ahead = 0;
  }
  Pass* outer = passes_.innermost();
  if (outer != nullptr && !outer->drained) return;
  if (outer != nullptr) finish(here.thread, *outer, now);
  if (passes_.innermost() != nullptr || levels(here.stack).epoch) return;
  own(here, pass, false, now);
  pass.nested = false;
}

void Training::use_newest(Pass& pass) noexcept {
  if (pass.training != this) return;
  if (!pass.ever_used) pass.group = pass.idle;  // else the step of an optimizer has begun
  pass.ever_used = true;
  pass.ahead = 0;
}

// The iterator goes to another stack, or is gone.
void Training::leave(ThreadState& thread, Pass& pass) noexcept {
  Training* training = pass.training;
  if (training == nullptr) return;
  if (training->generation_ != thread.generation || !training->of_this_session())
    return training->forget(pass);
  training->leave_here({thread, *training->stack_}, pass);
}

void Training::leave_here(Here here, Pass& pass) noexcept {
  // Rule 6: one batch and nothing done with it was a look, not an epoch.
  if (passes_.peeked == &pass && drop_peek(here.thread, pass)) return;
  const Moment now;
  if ((&pass == passes_.last || pass.role == Pass::Role::kOwner) &&
      record::tenancy_of(*stack_) == tenancy_) {
    begin_event(here);
    if (claims_.announced == 0) conclude(here, now);
  }
  const bool waits = pass.waits;
  const bool last = &pass == passes_.last && here.thread.lane == stack_;
  finish(here.thread, pass, now);
  // No iterator fetches the next batches any more, so there are none left.
  if (Pass* outer = passes_.innermost();
      waits && outer != nullptr && outer->drained && outer->on_last() && step_.done)
    finish(here.thread, *outer, now);
  if (last) open_owed_step(here, now);
  end_event(here);
}

void Training::end_pass(ThreadState* thread, std::unique_ptr<Pass> pass) noexcept {
  Training* training = pass->training;
  if (training == nullptr) return;
  if (thread == nullptr) return training->forget(*pass);
  if (pass->drained && training->generation_ == thread->generation && training->of_this_session()) {
    training->passes_.kept.push_back(std::move(pass));
    return;
  }
  leave(*thread, *pass);
}

}  // namespace sonde::hook
