// Passes over loaders begin, go on, and are left.
#include <memory>
#include <utility>

#include "engine/hook/evidence.h"
#include "engine/hook/judge.h"
#include "engine/hook/level.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/names.h"
#include "engine/hook/pass.h"
#include "engine/hook/training.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

using record::ThreadState;

// A pass that begins inside an epoch feeds that epoch; one that looks like a validation gets a
// scope in it. Returns whether this fetch belongs to a validation.
bool Training::begin_pass(Here here, Pass& pass, Hint hint, const Moment& now) {
  pass.begin(*this, hint, record::next_sequence(here.thread));
  // A trainer that announces everything does not end what was open before it.
  const bool announced = seen_.claims.everything();
  const bool evaluates = looks_like_validation(hint, seen_.learnt.trains_in_eval,
                                               seen_.passes.trained_before(pass.source));
  if (pass.fetch.off || !evaluates) keep_what_waits(seen_, here, pass);
  const Pass* check = seen_.passes.checking();
  const bool beside = check != nullptr && ends_check(*check, hint);
  if (seen_.passes.peeked != nullptr && was_peek(*seen_.passes.peeked, pass))
    drop_peek(seen_, here.thread, *seen_.passes.peeked);
  if (!announced) {
    // Gradients are on again, or the model trains: validations whose iterators live are over.
    if (!evaluates || beside) pause_checks(seen_, here, now);
    end_those_before(here, pass, evaluates, now);
  }
  const Levels taken = seen_.levels(here.stack);
  const bool inside = taken.epoch || seen_.passes.innermost() != nullptr || seen_.counted.is_open();
  switch (judge_new_pass(evaluates, taken.validation, inside)) {
    case NewPass::kFeedsValidation:
      pass.role = Pass::Role::kMember;
      pass.evaluates = true;
      if (!seen_.leaves.only_loads()) settle(seen_);
      break;
    case NewPass::kOpensValidation:
      make_room_for_check(seen_, here, now);
      settle(seen_);
      close_look(seen_, here, now);
      pass.nested = inside;
      own(seen_, here, pass, true, now);
      break;
    case NewPass::kFeedsEpoch:
      close_look(seen_, here, now);
      pass.nested = true;
      pass.role = Pass::Role::kMember;
      break;
    case NewPass::kOpensEpoch:
      close_look(seen_, here, now);
      settle(seen_);
      if (seen_.step.is_open_innermost()) close_step(seen_, here.thread, now);
      seen_.cycle.reset();
      own(seen_, here, pass, false, now);
      break;
  }
  relate(pass);
  return pass.evaluates;
}

// Notes which pass the new pass begins in, and whether it follows a pass over the same loader.
void Training::relate(Pass& pass) {
  seen_.passes.known.push_back(&pass);
  const Pass* outer = seen_.passes.innermost();
  pass.relation.outer_fetches = outer != nullptr ? outer->fetch.count : 0;
  pass.relation.outer_scope = outer != nullptr ? outer->scope.sequence : 0;
  const bool again =
      pass.role == Pass::Role::kMember && outer != nullptr && outer->begins_anew(pass);
  pass.relation.waits = again && outer->fetch.drained && !outer->batches.used;
  pass.relation.supersedes = again && !pass.relation.waits;
  if (pass.relation.waits) {
    pass.batches.ahead = outer->batches.ever_used ? outer->batches.ahead : outer->fetch.left;
    pass.batches.ever_used = true;
  }
}

// Ends the passes that `next` shows to be over, although their iterators live.
void Training::end_those_before(Here here, const Pass& next, bool next_evaluates,
                                const Moment& now) {
  while (Pass* outer = seen_.passes.innermost()) {
    if (!is_over({.outer = *outer,
                  .next = next,
                  .next_evaluates = next_evaluates,
                  .outer_open = record::is_open(outer->scope),
                  .outer_owed = seen_.passes.owed == outer,
                  .outer_fed = seen_.passes.has_fed(*outer, next),
                  .steps_taken = outer->fetch.drained && seen_.levels(*seen_.stack).step,
                  .done = seen_.step.done()}))
      return;
    finish(seen_, here.thread, *outer, now);
  }
}

// A pass that is under way fetches its next batch. Returns whether this fetch belongs to a
// validation.
bool Training::resume_pass(Here here, Pass& pass, Hint hint, const Moment& now) {
  if (pass.role == Pass::Role::kOwner && !record::is_open(pass.scope)) drop_closed(seen_);
  if (seen_.claims.everything()) return true;
  if (stops_waiting(pass, seen_.step.done())) follow(here, pass, now);
  pass.fetch.off = hint == Hint::kGradientsOff;
  if (pass.fetch.off) keep_what_waits(seen_, here, pass);
  pass.relation.had_member = false;
  switch (judge_next_fetch(pass, hint, seen_.levels(here.stack).validation)) {
    case NextFetch::kOfValidation:
      if (!seen_.leaves.only_loads()) settle(seen_);
      return true;
    case NextFetch::kResumesValidation:
      end_those_before(here, pass, true, now);
      make_room_for_check(seen_, here, now);
      settle(seen_);
      close_look(seen_, here, now);
      if (!seen_.levels(here.stack).validation) own(seen_, here, pass, true, now);
      return true;
    case NextFetch::kOfLook:
      make_room_for_check(seen_, here, now);
      settle(seen_);
      open_look(seen_, here, now);
      return true;
    case NextFetch::kOfTraining:
      break;
  }
  if (pass.trained) pause_checks(seen_, here, now);
  const bool counted = seen_.counted.is_open() && record::is_innermost(seen_.counted.scope);
  switch (judge_epoch_of_fetch(pass, counted, seen_.in_epoch(here.stack))) {
    case EpochOfFetch::kPresent:
      return false;
    case EpochOfFetch::kInsteadOfCounted:
      end_counted(seen_, here.thread, now);
      break;
    case EpochOfFetch::kItsOwn:
      break;
  }
  own(seen_, here, pass, false, now);
  pass.nested = false;
  return false;
}

// The last batches of the pass before this one have been trained with.
void Training::follow(Here here, Pass& pass, const Moment& now) {
  pass.relation.waits = false;
  if (!seen_.step.done()) {
    pass.batches.ever_used = false;
    pass.batches.ahead = 0;
  }
  Pass* outer = seen_.passes.innermost();
  if (!can_follow(outer)) return;
  if (outer != nullptr) finish(seen_, here.thread, *outer, now);
  if (seen_.passes.innermost() != nullptr || seen_.levels(here.stack).epoch) return;
  own(seen_, here, pass, false, now);
  pass.nested = false;
}

void Training::use_newest(Pass& pass) noexcept {
  if (pass.training != this) return;
  // If the pass was used before, that was by an optimizer whose closure now runs the model.
  if (!pass.batches.ever_used) pass.batches.group = pass.batches.idle;
  pass.batches.ever_used = true;
  pass.batches.ahead = 0;
}

// The iterator is used on another stack from now on, or was freed.
void Training::leave(ThreadState& thread, Pass& pass) noexcept {
  Training* training = pass.training;
  if (training == nullptr) return;
  if (training->seen_.generation != thread.generation || !training->of_this_session())
    return forget(training->seen_, pass);
  training->leave_here({thread, *training->seen_.stack}, pass);
}

void Training::leave_all(Here here) noexcept {
  while (!seen_.passes.known.empty()) leave_here(here, *seen_.passes.known.back());
  seen_.claims.fetches_for_trainer = false;
}

void Training::leave_here(Here here, Pass& pass) noexcept {
  // Rule 6: one batch with which nothing was done was a peek, not an epoch.
  if (seen_.passes.peeked == &pass && drop_peek(seen_, here.thread, pass)) return;
  const Moment now;
  if ((&pass == seen_.passes.last || pass.role == Pass::Role::kOwner) &&
      record::tenancy_of(*seen_.stack) == seen_.tenancy) {
    begin_event(here);
    if (!seen_.claims.everything()) conclude(here, now);
  }
  const bool waits = pass.relation.waits;
  const bool last = &pass == seen_.passes.last && here.thread.lane == seen_.stack;
  finish(seen_, here.thread, pass, now);
  // The iterator that fetched ahead is gone. If nothing is left of the pass before it, that pass
  // is over, too.
  if (Pass* outer = seen_.passes.innermost();
      waits && outer != nullptr && has_nothing_left(*outer, seen_.step.done()))
    finish(seen_, here.thread, *outer, now);
  if (last) open_owed_step(seen_, here, now);
  end_event(here);
}

void Training::end_pass(ThreadState* thread, std::unique_ptr<Pass> pass) noexcept {
  Training* training = pass->training;
  if (training == nullptr) return;
  if (thread == nullptr) return forget(training->seen_, *pass);
  if (pass->fetch.drained && training->seen_.generation == thread->generation &&
      training->of_this_session()) {
    training->seen_.passes.kept.push_back(std::move(pass));
    return;
  }
  leave(*thread, *pass);
}

}  // namespace sonde::hook
