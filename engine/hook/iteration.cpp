// Loops without a loader: what their optimizers and forwards tell of steps, epochs and validations.
#include <algorithm>
#include <utility>

#include "engine/hook/names.h"
#include "engine/hook/training.h"

namespace sonde::hook {

using record::ThreadState;

// No loader feeds this forward.
void Training::place_without_loader(Here here, const Forward& forward, const Moment& now) {
  if (taken(here.stack, Level::kStep)) return settle();
  if (!step_open()) return place_without_step(here, forward, now);
  if (cycle_.complete()) {
    settle();
    if (!evaluates_) {
      pend_ = next_iteration(here, now);
      return;
    }
    if (!record::is_innermost(step_)) return;
    close_step(here.thread, now);
    open_look(here, now);
    pend_ = forward.gradients;
  } else if (!cycle_.known()) {
    // The next optimizer step tells whether another iteration has begun.
    pend_ = true;
    watch_ = forward.gradients && leaves_.has(Leaf::Kind::kForward);
    if (leaves_.full() && leaves_.only_evaluation()) {
      carve_check(here);
      settle_in_look();
    }
  }
}

void Training::place_without_step(Here here, const Forward& forward, const Moment& now) {
  const bool known = knows_training_ || forward.owned == Owned::kYes;
  if (evaluates_) {
    if (!known && forward.gradients) {
      pend_ = true;  // a backward would make it training, in whatever mode
      return;
    }
    if (!known || taken(here.stack, Level::kValidation)) return settle();
    const bool loads = !leaves_.empty() && leaves_.only_loads();
    open_look(here, loads ? Moment(leaves_.front()) : Moment(now));
    if (loads && record::is_open(look_)) leaves_.move(0, look_.sequence);
    if (!forward.gradients) settle_in_look();
    pend_ = forward.gradients;
  } else if (record::is_open(fallback_epoch_) || knows_training_) {
    begin_with_leaves(here, now);
    pend_ = true;
  } else {
    // The first iteration, if a backward follows.
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
    close_step(here.thread, now);
  }
  if (record::is_open(fallback_epoch_) && next_step_ >= steps_per_epoch() &&
      step_epoch_ == fallback_epoch_.sequence && record::is_innermost(fallback_epoch_)) {
    report_epoch(fallback_epoch_.sequence, next_epoch_);
    close(here.thread, fallback_epoch_, now);
    ++next_epoch_;
  }
  open_fallback(here, now);
  open_step(here, -1, now);
  return true;
}

// A scope of the program's that was opened behind the end of the step is the beginning of the next
// one, which takes the step's place below it. False: a scope reaches across.
bool Training::replace_step(Here here) {
  const record::OpenScope& above = here.stack.stack[step_.slot + 1];
  const bool full = fallback_epoch_ && next_step_ >= steps_per_epoch();
  if (above.start_ns < done_ns_ || full) return false;
  step_ = record::renew_beneath(here.thread, step_, next_step_, above.start_ns);
  earlier_index_ = step_index_;
  step_index_ = next_step_++;
  step_pass_ = nullptr;
  done_ = proven_ = false;
  cycle_.begin();
  return true;
}

void Training::open_fallback(Here here, const Moment& now) {
  if (record::is_open(fallback_epoch_)) return;
  if (fallback_epoch_) {
    // A scope of the program's has closed it. Around every single iteration, that is no epoch.
    if (next_step_ <= 1) short_depth_ = std::min(short_depth_, fallback_epoch_.slot);
    report_epoch(fallback_epoch_.sequence, next_epoch_);
    fallback_epoch_ = {};
    ++next_epoch_;
  }
  const std::uint32_t depth = here.stack.depth.load(std::memory_order_relaxed);
  if (depth >= short_depth_ || innermost() != nullptr || taken(here.stack, Level::kEpoch)) return;
  record::ScopeStart start;
  start.name = names().epoch;
  start.index = next_epoch_;
  start.flags = record::kHasIndex;
  start.start_ns = now.ns;
  fallback_epoch_ = open(here, start, now);
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
  record::ScopeStart start;
  start.name = names().validation;
  start.start_ns = now.ns;
  look_ = open(here, start, now);
  look_spans_ = 0;
}

void Training::close_look(Here here, const Moment& now) {
  if (!look_) return;
  if (record::is_open(look_)) {
    settle();
    close_around(here.thread, look_, now);
  }
  look_ = {};
}

// What is in there is certain.
void Training::settle_in_look() noexcept {
  look_spans_ += static_cast<std::uint32_t>(leaves_.size());
  settle();
}

// A backward or an optimizer step: the forwards before it that had gradients were a step's.
void Training::leave_look(Here here, const Moment& now) {
  if (leaves_.empty()) return close_look(here, now);
  const Moment start(leaves_.front());
  trains_in_eval_ = true;
  const bool only = look_spans_ == 0 && untouched(here.thread);
  if (!only || !cancel(look_)) close_around(here.thread, look_, start);
  look_ = {};
  if (leader() == nullptr) {
    next_iteration(here, start);
  } else if (!taken(here.stack, Level::kStep)) {
    open_step(here, -1, start);
  }
  if (step_open()) leaves_.move(0, step_.sequence);
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
  const Moment start = theirs ? Moment(leaves_.front()) : Moment(now);
  if (leader() == nullptr) {
    next_iteration(here, start);
  } else {
    open_step(here, -1, start);
  }
  if (theirs && step_open()) {
    leaves_.move(0, step_.sequence);
  } else {
    settle();
  }
}

// The leading optimizer steps again, so the step before ended where these forwards began; those at
// the front that no backward used were an evaluation's.
void Training::begin_behind_leaves(Here here) {
  const std::size_t first = leaves_.first_used();
  const Moment start(leaves_[first]);
  if (first > 0) {
    carve_check(here);
    if (record::is_open(look_)) close(here.thread, look_, start);
  }
  if (next_iteration(here, start)) leaves_.move(first, step_.sequence);
}

// Forwards were taken for a part of the step that a backward did not go through: they were an
// evaluation's, and the step begins behind them.
void Training::split_iteration(Here here, std::size_t first) {
  if (!untouched(here.thread) || !record::is_innermost(step_)) return;
  const Moment start(leaves_[first]);
  record::ScopeHandle check = step_;
  record::relabel_scope(check, names().validation, record::kNoIndex);
  take_step_back();
  close(here.thread, check, start);
  open_step(here, -1, start);
  leaves_.move(first, step_.sequence);
  proven_ = true;
}

// What the leaves before a fetch, or before the end of everything, turn out to be.
void Training::conclude(Here here, const Moment& now, const Pass* next) {
  if (leaves_.empty() || leaves_.only_loads()) return;
  if (step_open() && done_) {
    if (leaves_.only_evaluation()) carve_check(here);
  } else if (step_open() && !proven_ && record::is_innermost(step_)) {
    if (step_pass_ != nullptr) {
      Pass* pass = next == nullptr || next == step_pass_ || last_ == nullptr ? step_pass_ : last_;
      if (!pass->trains_ && !pass->failed_) turn_into_validation(here, *pass);
    } else if (!leaves_.has(Leaf::Kind::kBackward)) {
      record::relabel_scope(step_, names().validation, record::kNoIndex);
      look_ = step_;
      take_step_back();
    }
  }
  settle();
  if (record::is_open(look_)) close_look(here, now);
}

// No more is fetched, but batches are left. True: those have been trained with, and the epoch is
// over.
bool Training::drain(Here here, const Moment& now) {
  Pass* pass = leader();
  if (!step_open() || !done_) return false;
  if (!evaluates_ && pass->left_ > 1) {
    --pass->left_;
    final_batch_ = pass->left_ == 1;
    settle();
    if (record::is_innermost(step_)) {
      close_step(here.thread, now);
      if (!taken(here.stack, Level::kStep)) open_step(here, -1, now);
    } else {
      replace_step(here);
    }
    return false;
  }
  if (!cycle_.complete()) return false;  // another optimizer may be to come
  finish(here.thread, *pass, now);
  return true;
}

// A pass in an epoch without a loader, or over the loader of the epoch, was taken for a look, and
// its batch is trained with while its iterator lives: it is a loop with an epoch of its own.
void Training::promote(Here here, Pass& pass) {
  Pass* outer = innermost();
  const bool in_fallback = record::is_open(fallback_epoch_);
  if (pass.supersedes_ && outer != nullptr && begins_anew(*outer, pass)) {
    if (outer->scope_.slot + 1 != step_.slot) return;
  } else if (!in_fallback || fallback_epoch_.slot + 1 != step_.slot) {
    return;
  }
  if (pass.role_ != Pass::Role::kMember || step_pass_ != &pass || leaves_.empty() ||
      !untouched(here.thread) || !record::is_innermost(step_))
    return;
  const Moment start(leaves_.front());
  cancel_step();
  if (in_fallback) {
    end_fallback(here.thread, start);
  } else {
    const Leaves moved = std::exchange(leaves_, {});  // they are not the other's
    finish(here.thread, *outer, start);
    leaves_ = moved;
  }
  pass.nested_ = false;
  own(here, pass, false, start);
  open_step(here, -1, start);
  step_pass_ = &pass;
  leaves_.move(0, step_.sequence);
}

// The place of a validation that is about to begin: the step before it ends, and one whose batch
// has been fetched and nothing more begins behind it.
void Training::make_room_for_check(Here here, const Moment& now) {
  if (!step_open() || !record::is_innermost(step_)) return;
  if (done_) return close_step(here.thread, now);
  if (leaves_.empty() || !leaves_.only_loads() || proven_ || !untouched(here.thread)) return;
  const std::uint64_t step = step_.sequence;
  if (leaves_.parent() != step) return;
  cancel_step();
  leaves_.move(0, record::current_parent(here.stack));
}

}  // namespace sonde::hook
