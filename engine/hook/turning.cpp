// What a pass over a loader turns out to be after all, against what it was taken for.
#include <algorithm>
#include <utility>

#include "engine/hook/names.h"
#include "engine/hook/transitions.h"

namespace sonde::hook {

using record::ThreadState;

// Takes the scopes of a pass back that was only looked into; the fetch itself stays, and may be the
// first of what comes next.
bool Transitions::drop_peek(ThreadState& thread, Pass& pass) {
  const bool owner = pass.role == Pass::Role::kOwner;
  if (!others_.untouched(thread)) return false;
  if (pass.fresh_step && step_.scope && !cancel_step()) return false;
  if (owner && !cancel(pass.scope)) return false;
  if (owner || pass.fresh_step) leaves_.move(0, record::current_parent(*stack_));
  forget(pass);
  return true;
}

// Models ran on its batch, and no backward came: the step that its fetch opened is none.
void Transitions::turn_into_validation(Here here, Pass& pass) {
  if (!step_.is_open_innermost()) return;
  if (step_.pass != &pass) return turn_part_into_validation(here, pass);
  pass.evaluates = true;
  if (pass.role != Pass::Role::kOwner) {
    record::relabel_scope(step_.scope, names().validation, record::kNoIndex);
    pass.scope = step_.scope;
    pass.role = Pass::Role::kOwner;
    pass.first_check = pass.fetches;
    passes_.owners.push_back(&pass);
    return take_step_back();
  }
  if (others_.untouched(here.thread) && !parents_.has(step_.scope.sequence)) {
    leaves_.move(0, pass.scope.sequence);
    cancel_step();
  } else {
    record::relabel_scope(step_.scope, names().batch, step_.index);
    close_step(here.thread, Moment());
    --step_.next;
  }
  record::relabel_scope(pass.scope, names().validation, record::kNoIndex);
}

// Its batch came on top of one that waits to be trained with.
void Transitions::turn_part_into_validation(Here here, Pass& pass) {
  const std::size_t first = leaves_.find(pass.load_at);
  if (first == leaves_.size() || pass.role != Pass::Role::kMember) return;
  const Moment start(leaves_[first]);
  if (others_.untouched(here.thread) && !parents_.has(step_.scope.sequence)) {
    Pass* waiting = step_.pass;
    cancel_step();
    step_.owed = waiting;
    leaves_.move(0, record::current_parent(here.stack));
  }
  own(here, pass, true, start);
  pass.nested = true;
  pass.first_check = pass.fetches;
  leaves_.move(first, pass.scope.sequence);
}

// It looked like validation, and a backward shows that it is none: what has happened since the last
// fetch is a step.
void Transitions::turn_into_training(Here here, Pass& pass, const Moment& now) {
  // What was fetched and run with gradients off is a validation all the same.
  if (const std::size_t first = leaves_.behind_sure();
      pass.off && (first > 0 || (pass.sure && leaves_.empty())))
    return leave_check(here, pass, first, now);
  const bool since_fetch = !leaves_.empty() && others_.untouched(here.thread);
  const Moment start = since_fetch ? Moment(leaves_.front()) : Moment(now);
  pass.no_hint = true;
  learnt_.trains_in_eval = learnt_.trains_in_eval || (learnt_.hinted && !pass.sure);
  pass.evaluates = false;
  passes_.take_along(pass, true);
  if (!in_epoch(here.stack)) pass.nested = false;
  if (!pass.nested) {
    record::relabel_scope(pass.scope, names().epoch, epochs_.next);
  } else {
    if (!since_fetch || !cancel(pass.scope)) close_around(here.thread, pass.scope, start);
    pass.scope = {};
    std::erase(passes_.owners, &pass);
    pass.role = Pass::Role::kMember;
  }
  if (!since_fetch) settle();
  const Levels taken = levels(here.stack);
  if (!step_.is_open() && !taken.step &&
      !is_inside_scope(record::current_parent(here.stack), taken, here.stack)) {
    open_step(here, -1, start);
    step_.pass = &pass;
    pass.steps = std::max<std::uint64_t>(pass.steps, 1);
  }
  if (step_.is_open()) leaves_.move(0, step_.scope.sequence);
  promote(here, pass);
  pass.trained = true;
}

// It is over: what runs from this leaf on is training on something else.
void Transitions::leave_check(Here here, Pass& pass, std::size_t first, const Moment& now) {
  Leaves rest = leaves_.split(first);
  const Moment start = rest.empty() ? Moment(now) : Moment(rest.front());
  settle();
  if (pass.drained) {
    finish(here.thread, pass, start);
  } else {
    if (record::is_open(pass.scope)) forget_forward(pass.scope, start);
    close_around(here.thread, pass.scope, start);
    std::erase(passes_.owners, &pass);
    pass.role = Pass::Role::kMember;
    pass.nested = true;
  }
  leaves_ = std::move(rest);
  learnt_.trains_in_eval = learnt_.trains_in_eval || leaves_.has_hinted();
  if (!leaves_.empty()) step_with_leaves(here, start);
}

// What is open looked like validation, but before anything is done with its batch, which was
// fetched with gradients on, another pass fetches, with gradients off or to train: the batch waits
// to be trained with.
void Transitions::keep_what_waits(Here here, const Pass& next) {
  Pass* waiting = passes_.checking();
  if (waiting == nullptr || !waits_for_training(*waiting, next)) return;
  Pass& pass = *waiting;
  if (!pass.nested) {
    record::relabel_scope(pass.scope, names().epoch, epochs_.next);
  } else if (others_.untouched(here.thread) && cancel(pass.scope)) {
    leaves_.move(0, record::current_parent(here.stack));
    std::erase(passes_.owners, &pass);
    pass.role = Pass::Role::kMember;
  } else {
    return;
  }
  pass.evaluates = false;
  passes_.take_along(pass, false);
  step_.owed = &pass;
}

// Its epoch takes the place of the one there was, below the step that its fetch has opened.
void Transitions::promote(Here here, Pass& pass) {
  if (step_.pass != &pass || !can_promote(evidence(here))) return;
  const Moment start = Moment::of(record::view_of(step_.scope));
  if (Pass* outer = passes_.innermost()) {
    passes_.remember(*outer);
    pass.scope = outer->scope;
    report_epoch(pass.scope.sequence);
    forget(*outer);
  } else {
    pass.scope = std::exchange(counted_.scope, {});
    report_epoch(pass.scope.sequence);
  }
  renew_span(here.thread, pass.scope, epochs_.next, start, start);
  pass.role = Pass::Role::kOwner;
  pass.nested = pass.waits = pass.supersedes = false;
  passes_.owners.push_back(&pass);
  for (Pass* member : passes_.known) {
    if (member->role != Pass::Role::kMember || member->first_at < pass.first_at) continue;
    member->outer_scope = pass.scope.sequence;
    member->outer_fetches = pass.fetches;
  }
  record::relabel_scope(step_.scope, names().step, 0);
  step_.index = 0;
  step_.next = 1;
  step_.epoch = pass.scope.sequence;
  cycle_.reset();
}

}  // namespace sonde::hook
