// Validations without a loader: they begin, end, and are found among what was taken for training.
#include <utility>

#include "engine/hook/names.h"
#include "engine/hook/transitions.h"
#include "engine/record/stack.h"

namespace sonde::hook {

void Transitions::open_look(Here here, const Moment& now) {
  if (look_.is_open() || levels(here.stack).validation) return;
  look_.scope = open_span(here, {.name = names().validation}, now);
  look_.spans = 0;
}

void Transitions::close_look(Here here, const Moment& now) {
  if (!look_.scope) return;
  if (look_.is_open()) {
    settle();
    forget_forward(look_.scope, now);
    close_around(here.thread, look_.scope, now);
  }
  look_.scope = {};
}

// Begins one, with the leaves that are a part of it.
void Transitions::begin_look(Here here, bool with_leaves, const Moment& now) {
  open_look(here, with_leaves ? Moment(leaves_.front()) : Moment(now));
  if (with_leaves && look_.is_open()) leaves_.move(0, look_.scope.sequence);
}

// This evaluation ends here: if the last model that had gradients ran in it, the next backward
// goes through something else.
void Transitions::forget_forward(const record::ScopeHandle& evaluation,
                                 const Moment& end) noexcept {
  const std::uint64_t start_ns = record::view_of(evaluation).start_ns();
  if (learnt_.graded_ns < start_ns || learnt_.graded_ns >= end.ns) return;
  learnt_.hinted = false;
  learnt_.owner = Owner::kAny;
}

// What is in there is certain.
void Transitions::settle_in_look() noexcept {
  look_.spans += static_cast<std::uint32_t>(leaves_.size());
  settle();
}

// It is over: what runs from this leaf on is a step's.
void Transitions::leave_look(Here here, const Moment& now, std::size_t first) {
  if (first >= leaves_.size()) return close_look(here, now);
  Leaves rest = leaves_.split(first);
  const Moment start(rest.front());
  const bool only = leaves_.empty() && look_.spans == 0 && others_.untouched(here.thread);
  settle();
  if (!only || !cancel(look_.scope)) close_around(here.thread, look_.scope, start);
  look_.scope = {};
  leaves_ = std::move(rest);
  learnt_.trains_in_eval = learnt_.trains_in_eval || leaves_.has_hinted();
  step_with_leaves(here, start);
}

// Evaluation came behind the end of the step: the step ends where that began.
void Transitions::carve_check(Here here) {
  if (leaves_.empty() || !step_.is_open_innermost()) return;
  const Moment start(leaves_.front());
  close_step(here.thread, start);
  open_look(here, start);
  if (look_.is_open()) leaves_.move(0, look_.scope.sequence);
}

// Nothing was trained with in the step: it was a look, and so was the epoch that it began.
// `fetched`: what was fetched before is none of it.
void Transitions::turn_into_look(Here here, bool fetched) {
  const std::size_t first = fetched ? leaves_.behind_loads() : 0;
  if (first == leaves_.size()) return;
  const Moment start(leaves_[first]);
  const bool lonely = began_epoch();
  Pass* pass = step_.pass;
  if (!others_.untouched(here.thread) || parents_.has(step_.scope.sequence) || !cancel_step()) {
    if (fetched) return;
    record::relabel_scope(step_.scope, names().validation, record::kNoIndex);
    look_.scope = step_.scope;
    return take_step_back();
  }
  step_.owed = pass;
  if (lonely) cancel(counted_.scope);
  leaves_.move(0, record::current_parent(here.stack));
  open_look(here, start);
  if (look_.is_open()) leaves_.move(first, look_.scope.sequence);
}

// The leaves were an evaluation, beside the step.
void Transitions::write_check(Here here, const Moment& start, const Moment& end) {
  const std::uint64_t sequence = record::take_sequence(here.thread);
  leaves_.move(0, sequence);
  settle();
  record::write_span(here.thread, {.sequence = sequence,
                                   .parent = record::view_of(step_.scope).parent(),
                                   .start_ns = start.ns,
                                   .end_ns = end.ns,
                                   .name = names().validation});
}

}  // namespace sonde::hook
