// Forwards and backwards: where each of them belongs.
#include <algorithm>

#include "engine/hook/level.h"
#include "engine/hook/names.h"
#include "engine/hook/plain.h"
#include "engine/hook/training.h"

namespace sonde::hook {

using record::ScopeHandle;

// -- forward --

ScopeHandle Training::begin_forward(Here here, const Forward& forward) noexcept {
  const Moment now;
  bool part = false;
  const bool trains = forward.training || trains_in_eval_ || forward.owned == Owned::kNo;
  if (!done_ && forward.gradients && trains && goes_on(here)) [[likely]] {
    sure_ = evaluates_ = foreign_ = hinted_ = false;
    module_ = forward.module;
    owner_ = forward.owned == Owned::kYes ? Owner::kOptimizer : Owner::kNobody;
    place_plainly();
  } else {
    part = begin_other_forward(here, forward, now);
  }
  const std::uint32_t mode = forward.training ? names().train_mode : names().eval_mode;
  const std::uint32_t attrs = forward.attrs != 0 ? forward.attrs : mode;
  const ScopeHandle scope = open(here, {.name = names().forward, .attrs = attrs}, now);
  if (!part) {
    running_ = scope;
    end_event(here);
  }
  return scope;
}

// True: it is a part of something else.
bool Training::begin_other_forward(Here here, const Forward& forward, const Moment& now) {
  pause_optimizer(here.thread, now);
  if (announced_ > 0 || nested()) return true;
  begin_event(here);
  pend_ = watch_ = false;
  use_batches();
  place_forward(here, forward, now);
  pend_ = pend_ && stands_free(here.stack);
  watch_ = watch_ && pend_;
  if (!pend_ && record::is_open(look_)) ++look_spans_;
  return false;
}

bool Training::end_forward(Here here, const ScopeHandle& scope, bool failed,
                           std::string_view error) noexcept {
  if (failed) note_failure();
  if (!scope) return false;
  ScopeHandle mine = scope;
  if (scope.sequence != running_.sequence || failed) {
    close(here.thread, mine, Moment(), error);
    if (scope.sequence == running_.sequence) running_ = {};
    touched_ = touched_ || failed;
    return false;
  }
  running_ = {};
  end_leaf(here, mine, Leaf::Kind::kForward, Moment());
  end_event(here);
  return watch_ && !leaves_.empty();
}

// Directly below what we have opened, or below nothing of ours: then it may be moved.
bool Training::stands_free(const record::Lane& stack) const noexcept {
  const std::uint64_t parent = record::current_parent(stack);
  const Pass* pass = innermost();
  if (step_open() && parent == step_.sequence) return true;
  if (record::is_open(look_) && parent == look_.sequence) return true;
  if (pass != nullptr) return parent == pass->scope_.sequence;
  if (step_open() || record::is_open(look_)) return false;
  return leaves_.empty() || parent == leaves_.parent();
}

void Training::place_forward(Here here, const Forward& forward, const Moment& now) {
  const bool trainable = forward.owned != Owned::kNo;
  const bool sure = sure_ = trainable && !forward.gradients;
  evaluates_ = sure || (trainable && !forward.training && !trains_in_eval_);
  foreign_ = !trainable && !forward.gradients;
  module_ = forward.module;
  if (forward.gradients) {
    hinted_ = evaluates_;
    graded_ns_ = now.ns;
    owner_ = forward.owned == Owned::kYes ? Owner::kOptimizer : Owner::kNobody;
  }
  peeked_ = nullptr;
  if (Pass* check = checking()) {
    // What runs first on a batch that was fetched with gradients on, and what has gradients behind
    // that, may be either: the next backward tells.
    const std::size_t load = leaves_.find(check->load_at_);
    const bool looked_at = leaves_.only_sure_behind(load);
    const bool open = !check->off_ && load < leaves_.size() && !looked_at;
    if (open || !trains_again(*check, forward)) {
      check->sure_ = check->sure_ || sure;
      pend_ = true;
      watch_ = forward.gradients;
      return;
    }
    // The first batch, fetched with gradients on, is looked at and then trained with.
    if (leader() == nullptr && !check->off_ && looked_at) {
      turn_into_training(here, *check, now);
    } else if (const std::size_t first = leaves_.first_foreign(); first < leaves_.size()) {
      leave_check(here, *check, first, now);
    } else {
      pause_checks(here, now);
    }
  }
  if (owed_ != nullptr && !evaluates_ && !record::is_open(look_)) open_owed_step(here, now);
  if (step_open() && !done_) return place_in_step(here, forward, sure, now);
  if (record::is_open(look_)) {
    if (evaluates_ || foreign_) {
      pend_ = !sure;
      watch_ = forward.gradients;
      if (!pend_) settle_in_look();
      return;
    }
    if (!ends_look(here, forward, now)) return;
    if (owed_ != nullptr) open_owed_step(here, now);
    if (step_open() && !done_) return place_in_step(here, forward, sure, now);
  }
  Pass* pass = leader();
  if (pass != nullptr && pass->drained_ && drain(here, now)) pass = nullptr;
  if (pass != nullptr) {
    place_with_leader(here, forward, now);
  } else {
    place_without_loader(here, forward, now);
  }
}

// A validation is open, and this forward is none of it.
bool Training::trains_again(const Pass& check, const Forward& forward) const noexcept {
  if (!forward.gradients || !check.sure_) return false;
  if (check.off_) return true;
  if (!forward.training) return false;
  const bool outer_trains = owners_.size() > 1 && owners_[owners_.size() - 2]->trains_;
  return check.drained_ || outer_trains || (knows_training_ && leader() == nullptr);
}

// A step is under way.
void Training::place_in_step(Here here, const Forward& forward, bool sure, const Moment& now) {
  Pass* pass = step_pass_;
  if (pass != nullptr && !pass->trains_) {
    // A backward will show whether it is a step; gradients that are off speak for themselves.
    if (pass == last_ && evaluates_ && !trained_before(pass->source_) && leaves_.only_loads()) {
      turn_into_validation(here, *pass);
      pass->sure_ = sure;
    }
    pend_ = true;
    watch_ = forward.gradients && (pass->evaluates_ || can_promote(*pass));
    return;
  }
  // A batch of another pass came on top: the next fetch tells whether that was a validation.
  if (pass != nullptr && last_ != nullptr && last_ != pass && !last_->trains_ &&
      !last_->evaluates_ && !proven_) {
    pend_ = true;
    return;
  }
  if (pass != nullptr && sure && !forward.training && !trains_in_eval_ && !proven_) {
    // Evaluation mode and gradients off, before anything is done with the batch.
    make_room_for_check(here, now);
    if (!step_open()) {
      settle();
      return open_look(here, now);
    }
  }
  if (pass != nullptr) {
    // The batch may have been fetched for nothing.
    pend_ = (sure || pass->drained_) && !proven_;
    if (!pend_) settle();
    return;
  }
  pend_ = !proven_ && (leader() == nullptr || !leaves_.empty());
  watch_ = pend_ && forward.gradients && leaves_.has(Leaf::Kind::kForward);
}

// Batches come from a loader, and the step on the last one is over, or was none yet.
void Training::place_with_leader(Here here, const Forward& forward, const Moment& now) {
  if (!step_open()) {
    if (taken(here.stack, Level::kStep) || inside_scope(here.stack)) return settle();
    const bool loads =
        !leaves_.empty() && leaves_.only_loads() && movable(here.thread) && stands_free(here.stack);
    const Moment start = loads ? Moment(leaves_.front()) : Moment(now);
    if (evaluates_) {
      open_look(here, start);
      if (loads && record::is_open(look_)) leaves_.move(0, look_.sequence);
      if (!forward.gradients) settle_in_look();
      pend_ = watch_ = forward.gradients;
    } else {
      open_step(here, -1, start);
      if (loads) leaves_.move(0, step_.sequence);
      settle();
      pend_ = true;  // nothing was fetched for it: it may be a look
    }
    return;
  }
  if (!evaluates_ && !foreign_) {
    // If the leading optimizer steps again, it is on the next of the batches that were left.
    pend_ = leader()->drained_ && !cycle_.complete();
    if (!pend_) settle();
    return;
  }
  if (cycle_.full() && record::is_innermost(step_)) {
    settle();
    close_step(here.thread, now);
    open_look(here, now);
    pend_ = watch_ = forward.gradients;
    return;
  }
  // It may be a part of the step, for another optimizer; the next fetch will tell.
  pend_ = true;
  if (leaves_.full()) {
    carve_check(here);
    settle_in_look();
  }
}

// -- backward --

ScopeHandle Training::begin_backward(Here here) noexcept {
  const Moment now;
  bool part = false;
  if (!done_ && goes_on(here)) [[likely]] {
    place_plainly();
    prove_plainly();
  } else {
    part = begin_other_backward(here, now);
  }
  const ScopeHandle scope = open(here, {.name = names().backward}, now);
  if (!part) {
    running_ = scope;
    end_event(here);
  }
  return scope;
}

// True: it is a part of something else.
bool Training::begin_other_backward(Here here, const Moment& now) {
  pause_optimizer(here.thread, now);
  if (announced_ > 0 || nested()) return true;
  begin_event(here);
  pend_ = watch_ = decide_ = false;
  use_batches();
  place_backward(here, now);
  pend_ = pend_ && stands_free(here.stack);
  return false;
}

void Training::place_backward(Here here, const Moment& now) {
  peeked_ = nullptr;
  knows_training_ = true;
  Pass* check = checking();
  if (check != nullptr || record::is_open(look_)) {
    pend_ = decide_ = leaves_.watched();
    if (decide_) return;
    if (check != nullptr) {
      turn_into_training(here, *check, now);
    } else {
      leave_look(here, now, 0);
    }
  }
  Pass* pass = leader();
  if (pass != nullptr && pass->drained_ && !leaves_.has(Leaf::Kind::kForward)) {
    sure_ = evaluates_ = false;
    if (drain(here, now)) pass = nullptr;
  }
  if (step_open() && !done_) {
    pend_ = decide_ = leaves_.watched();
    if (decide_) return;
    if (step_pass_ != nullptr && !step_pass_->trains_) promote(here, *step_pass_);
    prove();
    settle();
  } else if (step_open() && pass != nullptr) {
    // It may be on the next of the batches that are left.
    pend_ = pass->drained_ && (cycle_.full() || leaves_.has(Leaf::Kind::kForward));
    if (!pend_) settle();
    prove();
  } else if (step_open()) {
    if (cycle_.complete() || (!cycle_.known() && ends_below_scope())) {
      next_iteration(here, now);
      settle();
      prove();
    } else {
      pend_ = true;
    }
  } else if (owned() && inside_scope(here.stack)) {
    pend_ = pass == nullptr;  // where the optimizer steps is where the iteration is
    if (pass != nullptr) prove();
  } else if (!taken(here.stack, Level::kStep)) {
    begin_with_leaves(here, now);
    pend_ = decide_ = leaves_.watched();
    if (decide_) return;
    if (step_pass_ != nullptr && !step_pass_->trains_) promote(here, *step_pass_);
    prove();
    settle();
  } else {
    settle();
    prove();
  }
}

// Autograd has told which forwards the backward went through.
void Training::decide(Here here) {
  Pass* check = checking();
  // On a batch that was fetched with gradients on, a look with gradients off may come first.
  const Pass* fetched = check != nullptr ? check : step_pass_;
  std::size_t first = first_trained(fetched == nullptr || fetched->off_);
  if (fetched != nullptr && leaves_.find(fetched->load_at_) < first) first = first_trained();
  const bool free = !leaves_.empty() && untouched(here.thread);
  if (check != nullptr) {
    const std::size_t load = leaves_.find(check->load_at_);
    // What came before is certain, unless that was on another loader's batches and this one waited.
    const bool seen = load == leaves_.size() && check->sure_ && !check->had_member_;
    const bool on_top =
        last_ != check && last_ != nullptr && leaves_.find(last_->load_at_) < leaves_.size();
    // A loop over a loader is more likely than a look that its iterator outlives.
    const bool looked_at = first > 0 && load < first && !on_top && (check->nested_ || check->off_);
    if (leaves_.unused()) {
      // It is in a scope of the program's, and went through nothing of that.
      leave_check(here, *check, leaves_.size(), Moment());
    } else if (free && (seen || looked_at)) {
      leave_check(here, *check, first, Moment());
    } else {
      turn_into_training(here, *check, Moment());
    }
  } else if (record::is_open(look_)) {
    // It went through the look itself, in which something else was recorded: that trains, too.
    const bool through = leaves_.watched() && !leaves_.none_used();
    const bool hinted = through && hinted_;
    const Owner owner = owner_;
    leave_look(here, Moment(), free ? first : leaves_.size());
    if (through) {
      hinted_ = hinted;
      owner_ = owner;
    }
  } else if (step_open() && !done_) {
    Pass* pass = step_pass_ != nullptr && !step_pass_->trains_ ? step_pass_ : nullptr;
    const bool splits = free && first > 0 && first < leaves_.size() && record::is_innermost(step_);
    const bool passed_over = splits && (pass == nullptr || leaves_.find(pass->load_at_) < first);
    Pass* on_top = last_ != pass && last_ != nullptr && !last_->trains_ ? last_ : nullptr;
    if (passed_over && pass != nullptr && on_top != nullptr &&
        leaves_.find(on_top->load_at_) < first) {
      turn_part_into_validation(here, *on_top);
      leave_check(here, *on_top, first, Moment());
    } else if (passed_over) {
      split_iteration(here, first);
      if (pass != nullptr) pass->evaluates_ = true;
    } else if (pass != nullptr && leaves_.none_used() &&
               leaves_.find(pass->load_at_) < leaves_.size()) {
      // It went through nothing that was done with that batch.
      pass->evaluates_ = true;
    }
  }
  if (step_open() && step_pass_ != nullptr && !step_pass_->trains_) promote(here, *step_pass_);
  settle();
  prove();
}

// Where training begins among the leaves; size(): nothing trains. `sure`: forwards with gradients
// off at the front are an evaluation's.
std::size_t Training::first_trained(bool sure) const noexcept {
  if (bare_ && leaves_.none_used()) return leaves_.first(Leaf::Kind::kBackward);
  return leaves_.first_used(sure);
}

void Training::end_backward(Here here, const ScopeHandle& scope, bool failed,
                            std::string_view error) noexcept {
  if (failed) note_failure();
  if (!scope) return;
  ScopeHandle mine = scope;
  if (scope.sequence != running_.sequence || failed) {
    close(here.thread, mine, Moment(), error);
    if (scope.sequence == running_.sequence) running_ = {};
    return;
  }
  running_ = {};
  end_leaf(here, mine, Leaf::Kind::kBackward, Moment());
  const bool unused = bare_ && (leaves_.watched() ? leaves_.none_used() : hinted_);
  if (decide_) decide(here);
  // Nobody owns what was trained: the program updates it by hand, and the next forward is another
  // step's.
  if (announced_ == 0 && !optimizing() && !steps_by_optimizer_ && !owned() && step_open()) {
    done_ = true;
    cycle_.note_by_hand();
    ++since_fetch_;
  }
  bare_ = owner_ == Owner::kAny || unused;
  owner_ = Owner::kAny;
  end_event(here);
}

// Is the innermost scope one of the program's, and no epoch?
bool Training::inside_scope(const record::Lane& stack) const noexcept {
  const std::uint64_t parent = record::current_parent(stack);
  if (stack.depth.load(std::memory_order_relaxed) == 0 ||
      parent == open_level(stack, names().epoch))
    return false;
  return std::none_of(owners_.begin(), owners_.end(),
                      [&](const Pass* pass) { return pass->scope_.sequence == parent; });
}

}  // namespace sonde::hook
