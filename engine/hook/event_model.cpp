// Forwards and backwards begin and end.
#include <cstdint>
#include <string_view>

#include "engine/base/placement.h"
#include "engine/hook/event.h"
#include "engine/hook/evidence.h"
#include "engine/hook/judge.h"
#include "engine/hook/leaves.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/names.h"
#include "engine/hook/plain.h"
#include "engine/hook/seen.h"
#include "engine/hook/spans.h"
#include "engine/hook/training.h"
#include "engine/hook/verdict.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"

namespace sonde::hook {

using record::ScopeHandle;

namespace {

// Notes how the forward or backward that begins is to end.
void note(Seen& seen, const Verdict& verdict) noexcept {
  seen.running.pend = verdict.event.pend;
  seen.running.watch = verdict.event.watch;
  seen.running.decide = verdict.event.decide;
}

SONDE_APART void place_forward(Seen& seen, Here here, const Forward& forward, const Moment& now) {
  const Reading reading = read_forward(forward, seen.learnt.trains_in_eval);
  seen.running.reading = reading;
  seen.running.module = forward.module;
  if (forward.gradients) {
    seen.learnt.hinted = reading.evaluates;
    seen.learnt.graded_ns = now.ns;
    seen.learnt.owner = forward.owned == Owned::kYes ? Owner::kOptimizer : Owner::kNone;
  }
  seen.passes.peeked = nullptr;
  note(seen, place(seen, here, now, [&](Question asked) {
         return judge_forward(seen.evidence(here, forward), asked);
       }));
}

// True: this forward is a part of something else that is under way.
SONDE_APART bool begin_other_forward(Seen& seen, Here here, const Forward& forward,
                                     const Moment& now) {
  end_fetching_only(seen, here);
  seen.optimizers.pause(here.thread, now);
  if (seen.claims.announced > 0 || seen.nested()) return true;
  begin_event(seen, here);
  seen.running.pend = seen.running.watch = false;
  seen.passes.use_batches();
  place_forward(seen, here, forward, now);
  seen.running.pend = seen.running.pend && seen.stands_free(record::current_parent(here.stack));
  seen.running.watch = seen.running.watch && seen.running.pend;
  if (!seen.running.pend && seen.look.is_open()) ++seen.look.spans;
  return false;
}

SONDE_APART void place_backward(Seen& seen, Here here, const Moment& now) {
  seen.passes.peeked = nullptr;
  seen.learnt.knows_training = true;
  note(seen, place(seen, here, now,
                   [&](Question asked) { return judge_backward(seen.evidence(here), asked); }));
}

// True: this backward is a part of something else that is under way.
SONDE_APART bool begin_other_backward(Seen& seen, Here here, const Moment& now) {
  end_fetching_only(seen, here);
  seen.optimizers.pause(here.thread, now);
  if (seen.claims.announced > 0 || seen.nested()) return true;
  begin_event(seen, here);
  seen.running.pend = seen.running.watch = seen.running.decide = false;
  seen.passes.use_batches();
  place_backward(seen, here, now);
  seen.running.pend = seen.running.pend && seen.stands_free(record::current_parent(here.stack));
  return false;
}

// If the program updates by hand, the step is done: the next forward belongs to another one.
SONDE_COLD void end_step_by_hand(Seen& seen) {
  if (!updates_by_hand({.announced = seen.claims.announced > 0,
                        .in_optimizer = seen.optimizers.any(),
                        .optimizer_stepped = seen.learnt.steps_by_optimizer,
                        .optimizer_owns = seen.trains_owned(),
                        .step_open = seen.step.is_open()}))
    return;
  seen.step.note_done();
  seen.cycle.note_by_hand();
  ++seen.passes.since_fetch;
}

// A backward has ended: what did it go through, and is the step done?
SONDE_HOT void learn_from_backward(Seen& seen, Here here, const Moment& now) {
  const bool unused =
      seen.learnt.bare && (seen.leaves.watched() ? seen.leaves.none_used() : seen.learnt.hinted);
  if (seen.running.decide) carry_out(seen, here, judge_graph(seen.evidence(here)), now);
  if (!seen.learnt.steps_by_optimizer) [[unlikely]]
    end_step_by_hand(seen);
  seen.learnt.bare = seen.learnt.owner == Owner::kAny || unused;
  seen.learnt.owner = Owner::kAny;
}

// Ends a forward or a backward that was a part of something else, or that failed.
SONDE_APART void end_without_leaf(Seen& seen, Here here, ScopeHandle scope,
                                  std::string_view error) {
  const bool running = scope.sequence == seen.running.scope.sequence;
  close_span(here.thread, scope, Moment(), error);
  if (running) seen.running.scope = {};
}

}  // namespace

// -- forward --

ScopeHandle Training::begin_forward(Here here, const Forward& forward) noexcept {
  const Moment now;
  bool part = false;
  const bool trains =
      forward.training || seen_.learnt.trains_in_eval || forward.owned == Owned::kNo;
  if (!seen_.step.done() && forward.gradients && trains && goes_on(seen_, here)) [[likely]] {
    place_plainly(seen_, forward);
  } else {
    part = begin_other_forward(seen_, here, forward, now);
  }
  const std::uint32_t mode = forward.training ? names().train_mode : names().eval_mode;
  const std::uint32_t attrs = forward.attrs != 0 ? forward.attrs : mode;
  const ScopeHandle scope = open_span(here, {.name = names().forward, .attrs = attrs}, now);
  if (!part) {
    seen_.running.scope = scope;
    end_event(seen_, here);
  }
  return scope;
}

bool Training::end_forward(Here here, const ScopeHandle& scope, bool failed,
                           std::string_view error) noexcept {
  if (failed) seen_.passes.note_failure();
  if (!scope) return false;
  if (scope.sequence != seen_.running.scope.sequence || failed) {
    end_without_leaf(seen_, here, scope, error);
    seen_.others.touched = seen_.others.touched || failed;
    return false;
  }
  ScopeHandle mine = scope;
  seen_.running.scope = {};
  end_leaf(seen_, here, mine, Leaf::Kind::kForward, Moment());
  end_event(seen_, here);
  return seen_.running.watch && !seen_.leaves.empty();
}

// -- backward --

ScopeHandle Training::begin_backward(Here here) noexcept {
  const Moment now;
  bool part = false;
  if (!seen_.step.done() && goes_on(seen_, here)) [[likely]] {
    place_plainly(seen_);
    prove_plainly(seen_);
  } else {
    part = begin_other_backward(seen_, here, now);
  }
  const ScopeHandle scope = open_span(here, {.name = names().backward}, now);
  if (!part) {
    seen_.running.scope = scope;
    end_event(seen_, here);
  }
  return scope;
}

void Training::end_backward(Here here, const ScopeHandle& scope, bool failed,
                            std::string_view error) noexcept {
  if (failed) seen_.passes.note_failure();
  if (!scope) return;
  if (scope.sequence != seen_.running.scope.sequence || failed)
    return end_without_leaf(seen_, here, scope, error);
  ScopeHandle mine = scope;
  seen_.running.scope = {};
  const Moment now;
  end_leaf(seen_, here, mine, Leaf::Kind::kBackward, now);
  learn_from_backward(seen_, here, now);
  end_event(seen_, here);
}

}  // namespace sonde::hook
