// What a fetch changes: passes over loaders begin, go on, and have no more.
#include <cstdint>

#include "engine/base/placement.h"
#include "engine/hook/event.h"
#include "engine/hook/judge.h"
#include "engine/hook/level.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/pass.h"
#include "engine/hook/seen.h"
#include "engine/hook/spans.h"
#include "engine/hook/verdict.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

namespace {

// Notes which pass the new pass begins in, and whether it follows a pass over the same loader.
void relate(Seen& seen, Pass& pass) {
  seen.passes.known.push_back(&pass);
  const Pass* outer = seen.passes.innermost();
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

// A pass that begins inside an epoch feeds that epoch; one that looks like a validation gets a
// scope in it. Returns whether this fetch belongs to a validation.
SONDE_COLD bool begin_pass(Seen& seen, Here here, Pass& pass, Hint hint, const Moment& now) {
  pass.begin(seen, hint, record::next_sequence(here.thread));
  // A trainer that announces everything does not end what was open before it.
  const bool announced = seen.claims.everything();
  const bool evaluates = looks_like_validation(hint, seen.learnt.trains_in_eval,
                                               seen.passes.trained_before(pass.source));
  if (pass.fetch.off || !evaluates) keep_what_waits(seen, here, pass);
  const Pass* check = seen.passes.checking();
  const bool beside = check != nullptr && ends_check(*check, hint);
  if (seen.passes.peeked != nullptr && was_peek(*seen.passes.peeked, pass))
    drop_peek(seen, here.thread, *seen.passes.peeked);
  if (!announced) {
    // Gradients are on again, or the model trains: validations whose iterators live are over.
    if (!evaluates || beside) pause_checks(seen, here, now);
    end_those_before(seen, here, pass, evaluates, now);
  }
  const Levels taken = seen.levels(here.stack);
  const NewPass found = judge_new_pass(evaluates, taken.validation, seen.in_pass_or_epoch(taken));
  const Verdict verdict = verdict_on(found);
  carry_out(seen, here, verdict, now, &pass);
  relate(seen, pass);
  return verdict.event.checks;
}

// The last batches of the pass before this one have been trained with.
SONDE_COLD void follow(Seen& seen, Here here, Pass& pass, const Moment& now) {
  pass.relation.waits = false;
  if (!seen.step.done()) {
    pass.batches.ever_used = false;
    pass.batches.ahead = 0;
  }
  Pass* outer = seen.passes.innermost();
  if (!can_follow(outer)) return;
  if (outer != nullptr) finish(seen, here.thread, *outer, now);
  if (seen.passes.innermost() != nullptr || seen.levels(here.stack).epoch) return;
  reopen_epoch(seen, here, pass, now);
}

EpochOfFetch epoch_of(const Seen& seen, Here here, const Pass& pass) noexcept {
  const bool counted = seen.counted.is_open() && record::is_innermost(seen.counted.scope);
  return judge_epoch_of_fetch(pass, counted, seen.in_epoch(here.stack));
}

// A pass that is under way fetches its next batch. Returns whether this fetch belongs to a
// validation.
bool resume_pass(Seen& seen, Here here, Pass& pass, Hint hint, const Moment& now) {
  if (pass.role == Pass::Role::kOwner && !record::is_open(pass.scope)) drop_closed(seen);
  if (seen.claims.everything()) return true;
  if (stops_waiting(pass, seen.step.done())) follow(seen, here, pass, now);
  pass.fetch.off = hint == Hint::kGradientsOff;
  if (pass.fetch.off) keep_what_waits(seen, here, pass);
  pass.relation.had_member = false;
  const auto judge = [&](Question asked) {
    if (asked == Question::kEpochOfFetch) return verdict_on(epoch_of(seen, here, pass));
    return verdict_on(judge_next_fetch(pass, hint, seen.levels(here.stack).validation),
                      pass.trained);
  };
  return place(seen, here, now, judge, &pass).event.checks;
}

// A pass begins where its iterator was made (the workers are started there), unless something else
// was recorded in between. What came before the pass ends there.
Moment beginning_of(const Pass& pass, Here here, const Moment& now) noexcept {
  const bool direct = pass.begun.made_at == record::next_sequence(here.thread) &&
                      pass.begun.made_depth == record::depth_of(here.stack);
  return direct ? now.since(pass.begun.made_ns) : now;
}

void fetch_to_train(Seen& seen, Here here, const Pass& pass, const Moment& now) {
  // `leading` is the pass that makes the epoch. Where the program or a trainer has opened the
  // epoch, the pass that fetches stands for it.
  const Pass* leading = seen.passes.innermost();
  if (leading == nullptr || leading->evaluates) leading = &pass;
  seen.epochs.final_batch = leading->fetched_all();
  rotate_step(seen, here, now);
}

}  // namespace

void end_those_before(Seen& seen, Here here, const Pass& next, bool next_evaluates,
                      const Moment& now) {
  while (Pass* outer = seen.passes.innermost()) {
    if (!is_over({.outer = *outer,
                  .next = next,
                  .next_evaluates = next_evaluates,
                  .outer_open = record::is_open(outer->scope),
                  .outer_owed = seen.passes.owed == outer,
                  .outer_fed = seen.passes.has_fed(*outer, next),
                  .steps_taken = outer->fetch.drained && seen.levels(*seen.stack).step,
                  .done = seen.step.done()}))
      return;
    finish(seen, here.thread, *outer, now);
  }
}

void place_fetch(Seen& seen, Here here, Pass& pass, Hint hint, const Moment& now) {
  begin_event(seen, here);
  // A trainer's closure may fetch for itself; otherwise no program fetches inside an optimizer.
  if (!seen.optimizers.is_apart()) close_stale_optimizers(seen, here.thread, now);
  if (pass.seen != nullptr && pass.seen != &seen) leave(here.thread, pass);
  const bool begins = pass.seen == nullptr;
  const Moment start = begins ? beginning_of(pass, here, now) : Moment(now);
  if (!seen.claims.everything()) conclude(seen, here, start, &pass);
  const bool checks = begins ? begin_pass(seen, here, pass, hint, start)
                             : resume_pass(seen, here, pass, hint, start);
  seen.passes.peeked = nullptr;
  seen.passes.note_fetch(pass);
  const std::uint64_t before = seen.step.handle().sequence;
  if (!checks) fetch_to_train(seen, here, pass, now);
  pass.fetch.opened_step = seen.step.handle() && seen.step.handle().sequence != before;
  if (pass.fetch.opened_step) {
    seen.step.note_fetch(pass);
    pass.note_step();
  }
  if (pass.fetch.opened_step || checks) seen.others.touched = false;
}

// The loader is exhausted: there was neither a fetch nor a step, unless the dataset has recorded
// something.
void exhaust(Seen& seen, Here here, Pass& pass, const Moment& now) {
  seen.plain = false;
  const bool nothing =
      pass.fetch.load && record::next_sequence(here.thread) == pass.fetch.load.sequence + 1;
  const bool gone = nothing && cancel(seen, pass.fetch.load);
  if (!gone) close_span(here.thread, pass.fetch.load, now);
  if (pass.fetch.drained) return;
  const Unfinished rest = judge_unfinished(pass);
  pass.batches.per_step = rest.per_step;
  pass.fetch.left = rest.left;
  const NoMore found = judge_no_more(pass, rest.left, record::is_open(pass.scope));
  if (gone && pass.fetch.opened_step && found != NoMore::kLeftovers) cancel_step(seen);
  carry_out(seen, here, verdict_on(found), now, &pass);
}

}  // namespace sonde::hook
