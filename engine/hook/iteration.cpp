// Loops without a loader: what their optimizers and forwards tell of steps, epochs and validations.
#include <utility>

#include "engine/hook/names.h"
#include "engine/hook/training.h"

namespace sonde::hook {

using record::ThreadState;

// No loader feeds this forward.
void Training::place_without_loader(Here here, const Forward& forward, const Moment& now) {
  if (taken(here.stack, Level::kStep)) return settle();
  if (!step_open()) return place_without_step(here, forward, now);
  const bool scope_begun = ends_below_scope();
  if (cycle_.complete() || (scope_begun && !cycle_.known())) {
    if (!evaluates_ || (scope_begun && forward.gradients)) {
      pend_ = next_iteration(here, now);
      return;
    }
    settle();
    if (scope_begun) {
      close_around(here.thread, step_, Moment::at(here.stack.stack[step_.slot + 1].start_ns));
    } else if (record::is_innermost(step_)) {
      close_step(here.thread, now);
    } else {
      return;
    }
    open_look(here, now);
    pend_ = watch_ = forward.gradients;
  } else {
    // The next optimizer step tells whether another iteration has begun.
    pend_ = true;
    watch_ = forward.gradients && (evaluates_ || leaves_.has(Leaf::Kind::kForward));
    if (!leaves_.full()) return;
    // So much is no part of the last one.
    if (!leaves_.has(Leaf::Kind::kBackward)) {
      carve_check(here);
      settle_in_look();
    } else if (movable(here.thread)) {
      begin_behind_leaves(here, now);
      settle();
      prove();
    }
  }
}

// Has the program opened a scope since the step had its optimizer step?
bool Training::ends_below_scope() const noexcept {
  return step_open() && done_ && !record::is_innermost(step_) &&
         step_.stack->stack[step_.slot + 1].start_ns >= done_ns_;
}

void Training::place_without_step(Here here, const Forward& forward, const Moment& now) {
  const bool known = knows_training_ || forward.owned == Owned::kYes;
  if (evaluates_) {
    if (leaves_.has(Leaf::Kind::kBackward)) {
      pend_ = true;  // in the middle of an accumulation
      return;
    }
    if (forward.gradients &&
        (!known || inside_scope(here.stack) || leaves_.has(Leaf::Kind::kForward))) {
      pend_ = watch_ = true;  // a backward would make it training, in whatever mode
      return;
    }
    if (!known || taken(here.stack, Level::kValidation)) return settle();
    const bool loads = !leaves_.empty() && leaves_.only_loads() && movable(here.thread);
    open_look(here, loads ? Moment(leaves_.front()) : Moment(now));
    if (loads && record::is_open(look_)) leaves_.move(0, look_.sequence);
    if (!forward.gradients) settle_in_look();
    pend_ = watch_ = forward.gradients;
  } else if ((record::is_open(fallback_epoch_) || knows_training_) && !inside_scope(here.stack)) {
    begin_with_leaves(here, now);
    pend_ = true;
    watch_ = forward.gradients;
  } else {
    // The first iteration, if a backward follows; so many before one are a rollout.
    if (known && leaves_.full() && !leaves_.has(Leaf::Kind::kBackward) && movable(here.thread)) {
      open_look(here, Moment(leaves_.front()));
      if (record::is_open(look_)) leaves_.move(0, look_.sequence);
      settle_in_look();
    }
    pend_ = true;
    watch_ = forward.gradients && leaves_.has(Leaf::Kind::kForward);
  }
}

// Opens a step, and before it an epoch where there is none or the last one is full. False: a scope
// of the program's reaches across, and the step that is open goes on.
bool Training::next_iteration(Here here, const Moment& now) {
  if (step_open()) {
    if (step_.stack != &here.stack) return false;
    if (!record::is_innermost(step_)) return replace_step(here);
    settle();
    close_step(here.thread, now);
  }
  if (fallback_full() && record::is_innermost(fallback_epoch_)) {
    report_epoch(fallback_epoch_.sequence, next_epoch_);
    close(here.thread, fallback_epoch_, now);
    ++next_epoch_;
    full_parent_ = record::current_parent(here.stack);
  }
  open_fallback(here, now);
  open_step(here, -1, now);
  return true;
}

// A scope of the program's that was opened behind the end of the step is the beginning of the next
// one, which takes the step's place below it. False: a scope reaches across.
bool Training::replace_step(Here here) {
  if (!ends_below_scope()) return false;
  const Moment start = Moment::at(here.stack.stack[step_.slot + 1].start_ns);
  const bool full = fallback_full() && fallback_epoch_.slot + 1 == step_.slot;
  if (!leaves_.empty() && leaves_.only_evaluation() && leaves_.parent() == step_.sequence) {
    const Moment end(leaves_.front());
    write_check(here, end, start);
    renew(here.thread, step_, full ? 0 : next_step_, end, start);
  } else {
    settle();
    renew(here.thread, step_, full ? 0 : next_step_, start, start);
  }
  if (full) {
    report_epoch(fallback_epoch_.sequence, next_epoch_++);
    full_parent_ = fallback_parent_;
    renew(here.thread, fallback_epoch_, next_epoch_, start, start);
    step_epoch_ = fallback_epoch_.sequence;
    next_step_ = 0;
  }
  earlier_index_ = step_index_;
  step_index_ = next_step_++;
  step_pass_ = nullptr;
  done_ = proven_ = false;
  cycle_.begin();
  return true;
}

// The leaves were an evaluation, beside the step.
void Training::write_check(Here here, const Moment& start, const Moment& end) {
  const std::uint64_t sequence = here.thread.lane->next_sequence++;
  leaves_.move(0, sequence);
  settle();
  record::write_span(here.thread, {.sequence = sequence,
                                   .parent = here.stack.stack[step_.slot].parent,
                                   .start_ns = start.ns,
                                   .end_ns = end.ns,
                                   .name = names().validation});
}

bool Training::fallback_full() const noexcept {
  return record::is_open(fallback_epoch_) && step_epoch_ == fallback_epoch_.sequence &&
         next_step_ >= steps_per_epoch();
}

void Training::open_fallback(Here here, const Moment& now) {
  if (record::is_open(fallback_epoch_)) return;
  const std::uint32_t depth = here.stack.depth.load(std::memory_order_relaxed);
  if (depth >= short_depth_ || innermost() != nullptr || taken(here.stack, Level::kEpoch)) return;
  fallback_parent_ = record::current_parent(here.stack);
  fallback_epoch_ =
      open(here, {.name = names().epoch, .index = next_epoch_, .flags = record::kHasIndex}, now);
}

void Training::end_fallback(ThreadState& thread, const Moment& now) {
  if (!fallback_epoch_) return;
  report_epoch(fallback_epoch_.sequence, next_epoch_);
  if (record::is_open(fallback_epoch_)) {
    if (step_open() && step_.slot > fallback_epoch_.slot) close_step(thread, now);
    close(thread, fallback_epoch_, now);
  }
  fallback_epoch_ = {};
  ++next_epoch_;
  cycle_.reset();
}

// -- a validation without a loader --

void Training::open_look(Here here, const Moment& now) {
  if (record::is_open(look_) || taken(here.stack, Level::kValidation)) return;
  look_ = open(here, {.name = names().validation}, now);
  look_spans_ = 0;
}

void Training::close_look(Here here, const Moment& now) {
  if (!look_) return;
  if (record::is_open(look_)) {
    settle();
    forget_forward(look_, now);
    close_around(here.thread, look_, now);
  }
  look_ = {};
}

// This evaluation ends here: if the last model that had gradients ran in it, the next backward
// goes through something else.
void Training::forget_forward(const record::ScopeHandle& evaluation, const Moment& end) noexcept {
  const std::uint64_t start_ns = evaluation.stack->stack[evaluation.slot].start_ns;
  if (graded_ns_ < start_ns || graded_ns_ >= end.ns) return;
  hinted_ = false;
  owner_ = Owner::kAny;
}

// What is in there is certain.
void Training::settle_in_look() noexcept {
  look_spans_ += static_cast<std::uint32_t>(leaves_.size());
  settle();
}

// It is over: what runs from this leaf on is a step's.
void Training::leave_look(Here here, const Moment& now, std::size_t first) {
  if (first >= leaves_.size()) return close_look(here, now);
  Leaves rest = leaves_.split(first);
  const Moment start(rest.front());
  const bool only = leaves_.empty() && look_spans_ == 0 && untouched(here.thread);
  settle();
  if (!only || !cancel(look_)) close_around(here.thread, look_, start);
  look_ = {};
  leaves_ = std::move(rest);
  trains_in_eval_ = trains_in_eval_ || leaves_.has_hinted();
  step_with_leaves(here, start);
}

// A step begins where the leaves do, and they are all its own.
void Training::step_with_leaves(Here here, const Moment& start) {
  const Leaves mine = std::exchange(leaves_, {});
  if (owed_ != nullptr && !step_open()) open_owed_step(here, start);
  if (step_open() && !done_) {
    // It is accumulating.
  } else if (leader() == nullptr) {
    next_iteration(here, start);
  } else if (!step_open() && !taken(here.stack, Level::kStep)) {
    open_step(here, -1, start);
  }
  leaves_ = mine;
  leaves_.move(0, step_open() ? step_.sequence : record::current_parent(here.stack));
}

// A forward comes that looks like training. True: the look is over. Forwards at its end of what
// nobody trains (a teacher's) are the step's. False: forwards of the look had gradients, so a
// backward may yet go through them; until it tells, this one is in the look, too.
bool Training::ends_look(Here here, const Forward& forward, const Moment& now) {
  if (leaves_.has_hinted() && forward.gradients) {
    pend_ = watch_ = true;
    return false;
  }
  leave_look(here, now, leaves_.first_foreign());
  return true;
}

// Evaluation came behind the end of the step: the step ends where that began.
void Training::carve_check(Here here) {
  if (leaves_.empty() || !step_open() || !record::is_innermost(step_)) return;
  const Moment start(leaves_.front());
  close_step(here.thread, start);
  open_look(here, start);
  if (record::is_open(look_)) leaves_.move(0, look_.sequence);
}

// -- what belongs to the next iteration --

// A step begins, with what came before it and is certain to be a part of it.
void Training::begin_with_leaves(Here here, const Moment& now) {
  const bool theirs = !leaves_.empty() && leaves_.parent() == record::current_parent(here.stack);
  Leaves mine = leaves_.split(theirs ? leaves_.behind_stuck() : leaves_.size());
  settle();
  const Moment start = mine.empty() ? Moment(now) : Moment(mine.front());
  leaves_ = std::move(mine);
  step_with_leaves(here, start);
}

// The leading optimizer steps again, so the step before ended where these forwards began; those at
// the front that no backward used were an evaluation's.
void Training::begin_behind_leaves(Here here, const Moment& now) {
  const std::size_t first = first_trained();
  const Moment start = first < leaves_.size() ? Moment(leaves_[first]) : Moment(now);
  if (first > 0) {
    carve_check(here);
    if (record::is_open(look_)) close(here.thread, look_, start);
  }
  Leaves mine = leaves_.split(first);
  settle();
  const bool begun = next_iteration(here, start);
  leaves_ = std::move(mine);
  if (begun) leaves_.move(0, step_.sequence);
}

// The step is the first of an epoch without a loader.
bool Training::began_epoch() const noexcept {
  return next_step_ == 1 && record::is_open(fallback_epoch_) &&
         step_epoch_ == fallback_epoch_.sequence;
}

// Forwards were taken for a part of the step that a backward did not go through: they were an
// evaluation's, and the step begins behind them.
void Training::split_iteration(Here here, std::size_t first) {
  const Moment begin(leaves_.front()), start(leaves_[first]);
  const bool lonely = began_epoch();
  Leaves mine = leaves_.split(first);
  if (lonely && !has_children(step_.sequence) && cancel_step()) {
    cancel(fallback_epoch_);
    leaves_.move(0, record::current_parent(here.stack));
    open_look(here, begin);
    if (record::is_open(look_)) leaves_.move(0, look_.sequence);
    close_look(here, start);
  } else {
    record::ScopeHandle check = step_;
    record::relabel_scope(check, names().validation, record::kNoIndex);
    take_step_back();
    close(here.thread, check, start);
  }
  settle();
  leaves_ = std::move(mine);
  step_with_leaves(here, start);
  proven_ = true;
}

// What the leaves before a fetch, or before the end of everything, turn out to be.
void Training::conclude(Here here, const Moment& now, const Pass* next) {
  if (next == nullptr && step_is_empty(here.thread)) cancel_step();
  if (leaves_.empty() || leaves_.only_loads()) return;
  if (step_open() && done_) {
    if (leaves_.only_evaluation(leader() != nullptr)) {
      carve_check(here);
    } else if (leader() == nullptr && (!cycle_.known() || cycle_.complete()) &&
               leaves_.has(Leaf::Kind::kBackward) && movable(here.thread)) {
      begin_behind_leaves(here, now);
      prove();
    }
  } else if (step_open() && !proven_ && record::is_innermost(step_)) {
    if (step_pass_ != nullptr) {
      const bool on_top = last_ != nullptr && last_ != step_pass_ && !last_->trains_ &&
                          leaves_.find(last_->load_at_) < leaves_.size();
      Pass* pass = on_top || (next != nullptr && next != step_pass_ && last_ != nullptr)
                       ? last_
                       : step_pass_;
      if (!pass->trains_ && !pass->failed_) turn_into_validation(here, *pass);
      if (pass->trains_ && !pass->failed_ && pass == step_pass_) turn_into_look(here, true);
    } else if (!leaves_.has(Leaf::Kind::kBackward)) {
      turn_into_look(here, false);
    }
  } else if (!step_open() && leaves_.has(Leaf::Kind::kBackward) && leaves_.behind_stuck() == 0 &&
             leaves_.parent() == record::current_parent(here.stack) &&
             !taken(here.stack, Level::kStep)) {
    begin_with_leaves(here, now);
    prove();
  }
  settle();
  if (record::is_open(look_)) close_look(here, now);
}

// Nothing was trained with in the step: it was a look, and so was the epoch that it began.
// `fetched`: what was fetched before is none of it.
void Training::turn_into_look(Here here, bool fetched) {
  const std::size_t first = fetched ? leaves_.behind_loads() : 0;
  if (first == leaves_.size()) return;
  const Moment start(leaves_[first]);
  const bool lonely = began_epoch();
  Pass* pass = step_pass_;
  if (!untouched(here.thread) || has_children(step_.sequence) || !cancel_step()) {
    if (fetched) return;
    record::relabel_scope(step_, names().validation, record::kNoIndex);
    look_ = step_;
    return take_step_back();
  }
  owed_ = pass;
  if (lonely) cancel(fallback_epoch_);
  leaves_.move(0, record::current_parent(here.stack));
  open_look(here, start);
  if (record::is_open(look_)) leaves_.move(first, look_.sequence);
}

}  // namespace sonde::hook
