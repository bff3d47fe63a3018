// Forwards and backwards begin and end.
#include <cstdint>
#include <string_view>

#include "engine/hook/evidence.h"
#include "engine/hook/judge.h"
#include "engine/hook/leaves.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/names.h"
#include "engine/hook/plain.h"
#include "engine/hook/spans.h"
#include "engine/hook/training.h"
#include "engine/hook/verdict.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"

namespace sonde::hook {

using record::ScopeHandle;

// -- forward --

ScopeHandle Training::begin_forward(Here here, const Forward& forward) noexcept {
  const Moment now;
  bool part = false;
  const bool trains =
      forward.training || seen_.learnt.trains_in_eval || forward.owned == Owned::kNo;
  if (!seen_.step.done() && forward.gradients && trains && goes_on(here)) [[likely]] {
    seen_.running.reading = {};
    seen_.learnt.hinted = false;
    seen_.running.module = forward.module;
    seen_.learnt.owner = forward.owned == Owned::kYes ? Owner::kOptimizer : Owner::kNone;
    place_plainly();
  } else {
    part = begin_other_forward(here, forward, now);
  }
  const std::uint32_t mode = forward.training ? names().train_mode : names().eval_mode;
  const std::uint32_t attrs = forward.attrs != 0 ? forward.attrs : mode;
  const ScopeHandle scope = open_span(here, {.name = names().forward, .attrs = attrs}, now);
  if (!part) {
    seen_.running.scope = scope;
    end_event(here);
  }
  return scope;
}

// True: this forward is a part of something else that is under way.
bool Training::begin_other_forward(Here here, const Forward& forward, const Moment& now) {
  end_fetching_only(here);
  seen_.optimizers.pause(here.thread, now);
  if (seen_.claims.announced > 0 || seen_.nested()) return true;
  begin_event(here);
  seen_.running.pend = seen_.running.watch = false;
  seen_.passes.use_batches();
  place_forward(here, forward, now);
  seen_.running.pend = seen_.running.pend && seen_.stands_free(record::current_parent(here.stack));
  seen_.running.watch = seen_.running.watch && seen_.running.pend;
  if (!seen_.running.pend && seen_.look.is_open()) ++seen_.look.spans;
  return false;
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
  end_event(here);
  return seen_.running.watch && !seen_.leaves.empty();
}

void Training::place_forward(Here here, const Forward& forward, const Moment& now) {
  const Reading reading = read_forward(forward, seen_.learnt.trains_in_eval);
  seen_.running.reading = reading;
  seen_.running.module = forward.module;
  if (forward.gradients) {
    seen_.learnt.hinted = reading.evaluates;
    seen_.learnt.graded_ns = now.ns;
    seen_.learnt.owner = forward.owned == Owned::kYes ? Owner::kOptimizer : Owner::kNone;
  }
  seen_.passes.peeked = nullptr;
  note(place(seen_, here, now,
             [&](Question asked) { return judge_forward(seen_.evidence(here, forward), asked); }));
}

// Notes how the forward or backward that begins is to end.
void Training::note(const Verdict& verdict) noexcept {
  seen_.running.pend = verdict.event.pend;
  seen_.running.watch = verdict.event.watch;
  seen_.running.decide = verdict.event.decide;
}

// -- backward --

ScopeHandle Training::begin_backward(Here here) noexcept {
  const Moment now;
  bool part = false;
  if (!seen_.step.done() && goes_on(here)) [[likely]] {
    place_plainly();
    prove_plainly();
  } else {
    part = begin_other_backward(here, now);
  }
  const ScopeHandle scope = open_span(here, {.name = names().backward}, now);
  if (!part) {
    seen_.running.scope = scope;
    end_event(here);
  }
  return scope;
}

// True: this backward is a part of something else that is under way.
bool Training::begin_other_backward(Here here, const Moment& now) {
  end_fetching_only(here);
  seen_.optimizers.pause(here.thread, now);
  if (seen_.claims.announced > 0 || seen_.nested()) return true;
  begin_event(here);
  seen_.running.pend = seen_.running.watch = seen_.running.decide = false;
  seen_.passes.use_batches();
  place_backward(here, now);
  seen_.running.pend = seen_.running.pend && seen_.stands_free(record::current_parent(here.stack));
  return false;
}

void Training::place_backward(Here here, const Moment& now) {
  seen_.passes.peeked = nullptr;
  seen_.learnt.knows_training = true;
  note(place(seen_, here, now,
             [&](Question asked) { return judge_backward(seen_.evidence(here), asked); }));
}

// If the program updates by hand, the step is done: the next forward belongs to another one.
void Training::end_step_by_hand() {
  if (!updates_by_hand({.announced = seen_.claims.announced > 0,
                        .in_optimizer = seen_.optimizers.any(),
                        .optimizer_stepped = seen_.learnt.steps_by_optimizer,
                        .optimizer_owns = seen_.trains_owned(),
                        .step_open = seen_.step.is_open()}))
    return;
  seen_.step.note_done();
  seen_.cycle.note_by_hand();
  ++seen_.passes.since_fetch;
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
    end_step_by_hand();
  seen_.learnt.bare = seen_.learnt.owner == Owner::kAny || unused;
  seen_.learnt.owner = Owner::kAny;
  end_event(here);
}

}  // namespace sonde::hook
