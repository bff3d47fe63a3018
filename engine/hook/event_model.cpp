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

}  // namespace

// -- forward --

ScopeHandle Training::begin_forward(Here here, const Forward& forward) noexcept {
  const Moment now;
  bool part = false;
  const bool trains =
      forward.training || seen_.learnt.trains_in_eval || forward.owned == Owned::kNo;
  if (!seen_.step.done() && forward.gradients && trains && goes_on(seen_, here)) [[likely]] {
    seen_.running.reading = {};
    seen_.learnt.hinted = false;
    seen_.running.module = forward.module;
    seen_.learnt.owner = forward.owned == Owned::kYes ? Owner::kOptimizer : Owner::kNone;
    place_plainly(seen_);
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
  ScopeHandle mine = scope;
  if (scope.sequence != seen_.running.scope.sequence || failed) {
    close_span(here.thread, mine, Moment(), error);
    if (scope.sequence == seen_.running.scope.sequence) seen_.running.scope = {};
    seen_.others.touched = seen_.others.touched || failed;
    return false;
  }
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
  ScopeHandle mine = scope;
  if (scope.sequence != seen_.running.scope.sequence || failed) {
    close_span(here.thread, mine, Moment(), error);
    if (scope.sequence == seen_.running.scope.sequence) seen_.running.scope = {};
    return;
  }
  seen_.running.scope = {};
  const Moment now;
  end_leaf(seen_, here, mine, Leaf::Kind::kBackward, now);
  const bool unused = seen_.learnt.bare &&
                      (seen_.leaves.watched() ? seen_.leaves.none_used() : seen_.learnt.hinted);
  if (seen_.running.decide) carry_out(seen_, here, judge_graph(seen_.evidence(here)), now);
  if (!seen_.learnt.steps_by_optimizer) [[unlikely]]
    end_step_by_hand(seen_);
  seen_.learnt.bare = seen_.learnt.owner == Owner::kAny || unused;
  seen_.learnt.owner = Owner::kAny;
  end_event(seen_, here);
}

}  // namespace sonde::hook
