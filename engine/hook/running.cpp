// Forwards and backwards begin and end.
#include "engine/hook/names.h"
#include "engine/hook/plain.h"
#include "engine/hook/training.h"

namespace sonde::hook {

using record::ScopeHandle;

// -- forward --

ScopeHandle Training::begin_forward(Here here, const Forward& forward) noexcept {
  const Moment now;
  bool part = false;
  const bool trains = forward.training || learnt_.trains_in_eval || forward.owned == Owned::kNo;
  if (!step_.done && forward.gradients && trains && goes_on(here)) [[likely]] {
    running_.reading = {};
    learnt_.hinted = false;
    running_.module = forward.module;
    learnt_.owner = forward.owned == Owned::kYes ? Owner::kOptimizer : Owner::kNone;
    place_plainly();
  } else {
    part = begin_other_forward(here, forward, now);
  }
  const std::uint32_t mode = forward.training ? names().train_mode : names().eval_mode;
  const std::uint32_t attrs = forward.attrs != 0 ? forward.attrs : mode;
  const ScopeHandle scope = open_span(here, {.name = names().forward, .attrs = attrs}, now);
  if (!part) {
    running_.scope = scope;
    end_event(here);
  }
  return scope;
}

// True: it is a part of something else.
bool Training::begin_other_forward(Here here, const Forward& forward, const Moment& now) {
  optimizers_.pause(here.thread, now);
  if (claims_.announced > 0 || nested()) return true;
  begin_event(here);
  running_.pend = running_.watch = false;
  passes_.use_batches();
  place_forward(here, forward, now);
  running_.pend = running_.pend && stands_free(record::current_parent(here.stack));
  running_.watch = running_.watch && running_.pend;
  if (!running_.pend && look_.is_open()) ++look_.spans;
  return false;
}

bool Training::end_forward(Here here, const ScopeHandle& scope, bool failed,
                           std::string_view error) noexcept {
  if (failed) passes_.note_failure();
  if (!scope) return false;
  ScopeHandle mine = scope;
  if (scope.sequence != running_.scope.sequence || failed) {
    close_span(here.thread, mine, Moment(), error);
    if (scope.sequence == running_.scope.sequence) running_.scope = {};
    others_.touched = others_.touched || failed;
    return false;
  }
  running_.scope = {};
  end_leaf(here, mine, Leaf::Kind::kForward, Moment());
  end_event(here);
  return running_.watch && !leaves_.empty();
}

void Training::place_forward(Here here, const Forward& forward, const Moment& now) {
  const Reading reading = read_forward(forward, learnt_.trains_in_eval);
  running_.reading = reading;
  running_.module = forward.module;
  if (forward.gradients) {
    learnt_.hinted = reading.evaluates;
    learnt_.graded_ns = now.ns;
    learnt_.owner = forward.owned == Owned::kYes ? Owner::kOptimizer : Owner::kNone;
  }
  passes_.peeked = nullptr;
  note(place(here, now,
             [&](Question asked) { return judge_forward(evidence(here, forward), asked); }));
}

// How what begins now is to end.
void Training::note(const Verdict& verdict) noexcept {
  running_.pend = verdict.pend;
  running_.watch = verdict.watch;
  running_.decide = verdict.decide;
}

// -- backward --

ScopeHandle Training::begin_backward(Here here) noexcept {
  const Moment now;
  bool part = false;
  if (!step_.done && goes_on(here)) [[likely]] {
    place_plainly();
    prove_plainly();
  } else {
    part = begin_other_backward(here, now);
  }
  const ScopeHandle scope = open_span(here, {.name = names().backward}, now);
  if (!part) {
    running_.scope = scope;
    end_event(here);
  }
  return scope;
}

// True: it is a part of something else.
bool Training::begin_other_backward(Here here, const Moment& now) {
  optimizers_.pause(here.thread, now);
  if (claims_.announced > 0 || nested()) return true;
  begin_event(here);
  running_.pend = running_.watch = running_.decide = false;
  passes_.use_batches();
  place_backward(here, now);
  running_.pend = running_.pend && stands_free(record::current_parent(here.stack));
  return false;
}

void Training::place_backward(Here here, const Moment& now) {
  passes_.peeked = nullptr;
  learnt_.knows_training = true;
  note(place(here, now, [&](Question asked) { return judge_backward(evidence(here), asked); }));
}

void Training::end_backward(Here here, const ScopeHandle& scope, bool failed,
                            std::string_view error) noexcept {
  if (failed) passes_.note_failure();
  if (!scope) return;
  ScopeHandle mine = scope;
  if (scope.sequence != running_.scope.sequence || failed) {
    close_span(here.thread, mine, Moment(), error);
    if (scope.sequence == running_.scope.sequence) running_.scope = {};
    return;
  }
  running_.scope = {};
  const Moment now;
  end_leaf(here, mine, Leaf::Kind::kBackward, now);
  const bool unused = learnt_.bare && (leaves_.watched() ? leaves_.none_used() : learnt_.hinted);
  if (running_.decide) carry_out(here, judge_graph(evidence(here)), now);
  // Rule 5: no optimizer owns what was trained. The program updates it by hand, and the next
  // forward is another step's.
  if (claims_.announced == 0 && !optimizers_.any() && !learnt_.steps_by_optimizer &&
      !trains_owned() && step_.is_open()) {
    step_.done = true;
    cycle_.note_by_hand();
    ++passes_.since_fetch;
  }
  learnt_.bare = learnt_.owner == Owner::kAny || unused;
  learnt_.owner = Owner::kAny;
  end_event(here);
}

}  // namespace sonde::hook
