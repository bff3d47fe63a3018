// What a pass over a loader turns out to be after all, against what it was taken for.
#include <algorithm>
#include <utility>

#include "engine/hook/names.h"
#include "engine/hook/training.h"

namespace sonde::hook {

using record::ThreadState;

// Takes the scopes of a pass back that was only looked into; the fetch itself stays, and may be the
// first of what comes next.
bool Training::drop_peek(ThreadState& thread, Pass& pass) {
  const bool owner = pass.role_ == Pass::Role::kOwner;
  if (!untouched(thread)) return false;
  if (pass.fresh_step_ && step_ && !cancel_step()) return false;
  if (owner && !cancel(pass.scope_)) return false;
  if (owner || pass.fresh_step_) leaves_.move(0, record::current_parent(*stack_));
  forget(pass);
  return true;
}

// Models ran on its batch, and no backward came: the step that its fetch opened is none.
void Training::turn_into_validation(Here here, Pass& pass) {
  if (!step_open() || !record::is_innermost(step_)) return;
  if (step_pass_ != &pass) return turn_part_into_validation(here, pass);
  pass.evaluates_ = true;
  if (pass.role_ != Pass::Role::kOwner) {
    record::relabel_scope(step_, names().validation, record::kNoIndex);
    pass.scope_ = step_;
    pass.role_ = Pass::Role::kOwner;
    pass.first_check_ = pass.fetches_;
    owners_.push_back(&pass);
    return take_step_back();
  }
  if (untouched(here.thread) && !has_children(step_.sequence)) {
    leaves_.move(0, pass.scope_.sequence);
    cancel_step();
  } else {
    record::relabel_scope(step_, names().batch, step_index_);
    close_step(here.thread, Moment());
    --next_step_;
  }
  record::relabel_scope(pass.scope_, names().validation, record::kNoIndex);
}

// Its batch came on top of one that waits to be trained with.
void Training::turn_part_into_validation(Here here, Pass& pass) {
  const std::size_t first = leaves_.find(pass.load_at_);
  if (first == leaves_.size() || pass.role_ != Pass::Role::kMember) return;
  const Moment start(leaves_[first]);
  if (untouched(here.thread) && !has_children(step_.sequence)) {
    Pass* waiting = step_pass_;
    cancel_step();
    owed_ = waiting;
    leaves_.move(0, record::current_parent(here.stack));
  }
  own(here, pass, true, start);
  pass.nested_ = true;
  pass.first_check_ = pass.fetches_;
  leaves_.move(first, pass.scope_.sequence);
}

// It looked like validation, and a backward shows that it is none: what has happened since the last
// fetch is a step.
void Training::turn_into_training(Here here, Pass& pass, const Moment& now) {
  // What was fetched and run with gradients off is a validation all the same.
  if (const std::size_t first = leaves_.behind_sure();
      pass.off_ && (first > 0 || (pass.sure_ && leaves_.empty())))
    return leave_check(here, pass, first, now);
  const bool since_fetch = !leaves_.empty() && untouched(here.thread);
  const Moment start = since_fetch ? Moment(leaves_.front()) : Moment(now);
  pass.no_hint_ = true;
  trains_in_eval_ = trains_in_eval_ || (hinted_ && !pass.sure_);
  pass.evaluates_ = false;
  take_along(pass, true);
  if (!in_epoch(here.stack)) pass.nested_ = false;
  if (!pass.nested_) {
    record::relabel_scope(pass.scope_, names().epoch, next_epoch_);
  } else {
    if (!since_fetch || !cancel(pass.scope_)) close_around(here.thread, pass.scope_, start);
    pass.scope_ = {};
    std::erase(owners_, &pass);
    pass.role_ = Pass::Role::kMember;
  }
  if (!since_fetch) settle();
  if (!step_open() && !taken(here.stack, Level::kStep) && !inside_scope(here.stack)) {
    open_step(here, -1, start);
    step_pass_ = &pass;
    pass.steps_ = std::max<std::uint64_t>(pass.steps_, 1);
  }
  if (step_open()) leaves_.move(0, step_.sequence);
  promote(here, pass);
  pass.trains_ = true;
}

// So are those that fetch beside it, as in zip.
void Training::take_along(const Pass& pass, bool trained) noexcept {
  for (Pass* companion : known_) {
    if (companion->role_ != Pass::Role::kMember || !companion->evaluates_ ||
        companion->first_at_ < pass.first_at_)
      continue;
    companion->evaluates_ = false;
    companion->trains_ = companion->no_hint_ = trained;
  }
}

// It is over: what runs from this leaf on is training on something else.
void Training::leave_check(Here here, Pass& pass, std::size_t first, const Moment& now) {
  Leaves rest = leaves_.split(first);
  const Moment start = rest.empty() ? Moment(now) : Moment(rest.front());
  settle();
  if (pass.drained_) {
    finish(here.thread, pass, start);
  } else {
    if (record::is_open(pass.scope_)) forget_forward(pass.scope_, start);
    close_around(here.thread, pass.scope_, start);
    std::erase(owners_, &pass);
    pass.role_ = Pass::Role::kMember;
    pass.nested_ = true;
  }
  leaves_ = std::move(rest);
  trains_in_eval_ = trains_in_eval_ || leaves_.has_hinted();
  if (!leaves_.empty()) step_with_leaves(here, start);
}

// What is open looked like validation, but before anything is done with its batch, which was
// fetched with gradients on, another pass fetches, with gradients off or to train: the batch waits
// to be trained with.
void Training::keep_what_waits(Here here, const Pass& next) {
  Pass* waiting = checking();
  if (waiting == nullptr || waiting == &next || waiting->used_ || waiting->off_) return;
  Pass& pass = *waiting;
  if (!pass.nested_) {
    record::relabel_scope(pass.scope_, names().epoch, next_epoch_);
  } else if (untouched(here.thread) && cancel(pass.scope_)) {
    leaves_.move(0, record::current_parent(here.stack));
    std::erase(owners_, &pass);
    pass.role_ = Pass::Role::kMember;
  } else {
    return;
  }
  pass.evaluates_ = false;
  take_along(pass, false);
  owed_ = &pass;
}

// A pass in an epoch without a loader, or behind one whose last batches are left, was taken for a
// look. If its batch is trained with while its iterator lives, it is a loop of its own.
bool Training::can_promote(const Pass& pass) const noexcept {
  if (!step_open() || pass.role_ != Pass::Role::kMember || step_pass_ != &pass) return false;
  if (pass.trains_ || pass.evaluates_) return false;
  const Pass* outer = innermost();
  if (outer == nullptr)
    return record::is_open(fallback_epoch_) && fallback_epoch_.slot + 1 == step_.slot;
  return (outer->drained_ || (pass.supersedes_ && begins_anew(*outer, pass))) &&
         !outer->evaluates_ && outer->scope_.slot + 1 == step_.slot;
}

// Its epoch takes the place of the one there was, below the step that its fetch has opened.
void Training::promote(Here here, Pass& pass) {
  if (!can_promote(pass)) return;
  const Moment start = Moment::of(here.stack.stack[step_.slot]);
  if (Pass* outer = innermost()) {
    remember(*outer);
    pass.scope_ = outer->scope_;
    report_epoch(pass.scope_.sequence, next_epoch_++);
    forget(*outer);
  } else {
    pass.scope_ = std::exchange(fallback_epoch_, {});
    report_epoch(pass.scope_.sequence, next_epoch_++);
  }
  renew(here.thread, pass.scope_, next_epoch_, start, start);
  pass.role_ = Pass::Role::kOwner;
  pass.nested_ = pass.waits_ = pass.supersedes_ = false;
  owners_.push_back(&pass);
  for (Pass* member : known_) {
    if (member->role_ != Pass::Role::kMember || member->first_at_ < pass.first_at_) continue;
    member->outer_scope_ = pass.scope_.sequence;
    member->outer_fetches_ = pass.fetches_;
  }
  record::relabel_scope(step_, names().step, 0);
  step_index_ = 0;
  next_step_ = 1;
  step_epoch_ = pass.scope_.sequence;
  cycle_.reset();
}

}  // namespace sonde::hook
