// What a pass over a loader turns out to be: an epoch, a validation, a part of either, or a look.
#include "engine/hook/pass.h"

#include <algorithm>

#include "engine/hook/level.h"
#include "engine/hook/names.h"
#include "engine/hook/training.h"

namespace sonde::hook {

using record::ThreadState;

Pass::Pass(Here here, const void* source, std::uint64_t now) noexcept
    : source_(source),
      made_ns_(now),
      made_at_(here.thread.lane->next_sequence),
      made_depth_(here.stack.depth.load(std::memory_order_relaxed)) {}

// A pass that saw an epoch's owner, or another epoch of ours, feeds that one; what looks like
// validation gets a scope of its own in there. Returns whether this fetch is a validation's.
bool Training::begin_pass(Here here, Pass& pass, Hint hint, const Moment& now) {
  pass.training_ = this;
  pass.role_ = Pass::Role::kNone;
  pass.orphan_ = false;
  pass.failed_ = pass.trains_ = pass.evaluates_ = pass.sure_ = pass.nested_ = false;
  pass.used_ = pass.ever_used_ = pass.drained_ = pass.supersedes_ = pass.waits_ = false;
  pass.off_ = hint == Hint::kGradientsOff;
  pass.ahead_ = pass.idle_ = pass.group_ = 0;
  pass.fetches_ = pass.step_fetch_ = pass.steps_ = 0;
  pass.per_step_ = 1;
  pass.had_member_ = false;
  pass.first_at_ = here.thread.lane->next_sequence;
  // What is open from before is none of a trainer's business.
  const bool announced = announced_ > 0;
  // A loader that was trained with is likely to be so again, in whatever mode the model is.
  const bool evaluates =
      hint == Hint::kGradientsOff ||
      (hint == Hint::kModelInEval && !trains_in_eval_ && !trained_before(pass.source_));
  if (pass.off_ || !evaluates) keep_what_waits(here, pass);
  // A validation whose batch has been looked at, and whose iterator lives, is over, but for a loop
  // in a loop.
  const Pass* check = checking();
  const bool beside =
      check != nullptr && check->used_ && (hint != Hint::kGradientsOff || check->had_member_);
  // One batch was looked at, and now its loader begins anew: that was a peek.
  if (peeked_ != nullptr && peeked_ != &pass && peeked_->source_ == pass.source_ && !pass.again_ &&
      pass.made_at_ > peeked_->first_at_)
    drop_peek(here.thread, *peeked_);
  // Gradients are on again, or the model trains: validations whose iterators live are over.
  if ((!evaluates || beside) && !announced) pause_checks(here, now);
  while (Pass* outer = announced ? nullptr : innermost()) {
    if (!is_over(*outer, pass, evaluates)) break;
    finish(here.thread, *outer, now);
  }
  if (taken(here.stack, Level::kValidation)) {
    pass.role_ = Pass::Role::kMember;
    pass.evaluates_ = true;
    if (!leaves_.only_loads()) settle();
  } else if (evaluates) {
    make_room_for_check(here, now);
    settle();
    close_look(here, now);
    pass.nested_ = taken(here.stack, Level::kEpoch) || innermost() != nullptr ||
                   record::is_open(fallback_epoch_);
    own(here, pass, true, now);
  } else if (taken(here.stack, Level::kEpoch) || innermost() != nullptr ||
             record::is_open(fallback_epoch_)) {
    close_look(here, now);
    pass.nested_ = true;
    pass.role_ = Pass::Role::kMember;
  } else {
    close_look(here, now);
    settle();
    if (step_open() && record::is_innermost(step_)) close_step(here.thread, now);
    cycle_.reset();
    own(here, pass, false, now);
  }
  known_.push_back(&pass);
  const Pass* outer = innermost();
  pass.outer_fetches_ = outer != nullptr ? outer->fetches_ : 0;
  pass.outer_scope_ = outer != nullptr ? outer->scope_.sequence : 0;
  const bool again =
      pass.role_ == Pass::Role::kMember && outer != nullptr && begins_anew(*outer, pass);
  pass.waits_ = again && outer->drained_ && !outer->used_;
  pass.supersedes_ = again && !pass.waits_;
  if (pass.waits_) {
    pass.ahead_ = outer->ever_used_ ? outer->ahead_ : outer->left_;
    pass.ever_used_ = true;
  }
  return pass.evaluates_;
}

// The next batch of a pass that is under way. Returns whether it is a validation's.
bool Training::resume_pass(Here here, Pass& pass, Hint hint, const Moment& now) {
  if (pass.role_ == Pass::Role::kOwner && !record::is_open(pass.scope_)) drop_closed();
  if (announced_ > 0) return true;
  // The batches before it have been trained with, or dropped: this one is fetched instead of them.
  if (pass.waits_ && (done_ || !pass.used_)) follow(here, pass, now);
  pass.off_ = hint == Hint::kGradientsOff;
  if (pass.off_) keep_what_waits(here, pass);
  pass.had_member_ = false;
  if (pass.evaluates_ && !pass.trains_) {
    if (pass.role_ == Pass::Role::kOwner) {
      if (!leaves_.only_loads()) settle();
      return true;
    }
    while (innermost() != nullptr && is_over(*innermost(), pass, true))
      finish(here.thread, *innermost(), now);
    make_room_for_check(here, now);
    settle();
    close_look(here, now);
    if (!taken(here.stack, Level::kValidation)) own(here, pass, true, now);
    return true;
  }
  if (hint == Hint::kGradientsOff && !pass.no_hint_ && !taken(here.stack, Level::kValidation)) {
    // A look with gradients off, at a batch of a loader that is trained with.
    make_room_for_check(here, now);
    settle();
    open_look(here, now);
    return true;
  }
  if (pass.trains_) pause_checks(here, now);
  if (pass.trains_ && record::is_open(fallback_epoch_) && record::is_innermost(fallback_epoch_)) {
    // Its first batch was taken for a look; it is a loop of its own.
    end_fallback(here.thread, now);
    own(here, pass, false, now);
    pass.nested_ = false;
  }
  if (!pass.orphan_ && !in_epoch(here.stack)) {
    // What it fed is over.
    own(here, pass, false, now);
    pass.nested_ = false;
  }
  return false;
}

bool Training::in_epoch(const record::Lane& stack) const noexcept {
  return open_level(stack, names().epoch) != 0 || taken(stack, Level::kEpoch);
}

// The last batches of the pass before it have been trained with.
void Training::follow(Here here, Pass& pass, const Moment& now) {
  pass.waits_ = false;
  if (!done_) {
    pass.ever_used_ = false;
    pass.ahead_ = 0;
  }
  Pass* outer = innermost();
  if (outer != nullptr && !outer->drained_) return;
  if (outer != nullptr) finish(here.thread, *outer, now);
  if (taken(here.stack, Level::kEpoch) || innermost() != nullptr) return;
  own(here, pass, false, now);
  pass.nested_ = false;
}

// Does `next` show that nothing more will come from `outer`, although its iterator lives?
bool Training::is_over(const Pass& outer, const Pass& next, bool next_evaluates) const {
  if (!record::is_open(outer.scope_)) return true;
  if (outer.drained_) {
    if (outer.evaluates_ || taken(*stack_, Level::kStep)) return true;
    // Nothing was done with any of several batches: it was a pass without a model.
    if (!outer.ever_used_ && outer.left_ > 1 && !next_evaluates) return true;
    // Where nothing was done with the last batches yet, the next epoch is fetched ahead, too.
    if (begins_anew(outer, next)) return outer.used_ && (outer.on_last() || !done_);
    return outer.on_last() && done_ && owed_ != &outer;
  }
  const bool fed = fed_scope_ == outer.scope_.sequence && fed_fetches_ == outer.fetches_ &&
                   (fed_by_ == next.source_ || outer.fetches_ == 1);
  if (fed && !next.off_ && !next.again_) return true;
  if (next_evaluates || next.again_) return false;  // a validation, or a companion
  if (outer.failed_) return true;
  if (begins_anew(outer, next) && !outer.trains_) return true;
  // It was fed by this loader before, and has not fetched since; or it was only looked into.
  return fed;
}

// The same loader once more. (Iterators made before the first fetch are companions, as in zip.)
bool Training::begins_anew(const Pass& outer, const Pass& next) noexcept {
  return outer.source_ == next.source_ && next.made_at_ > outer.first_at_ && !next.again_;
}

bool Training::trained_before(const void* source) const {
  return std::find(trained_.begin(), trained_.end(), source) != trained_.end() ||
         std::any_of(known_.begin(), known_.end(),
                     [&](const Pass* pass) { return pass->trains_ && pass->source_ == source; });
}

void Training::remember(const Pass& pass) {
  constexpr std::size_t kRemembered = 16;
  const auto known = std::find(trained_.begin(), trained_.end(), pass.source_);
  if (pass.trains_ == (known != trained_.end())) return;
  if (!pass.trains_) {
    if (pass.evaluates_) std::erase(trained_, pass.source_);
    return;
  }
  if (trained_.size() == kRemembered) trained_.erase(trained_.begin());
  trained_.push_back(pass.source_);
}

void Training::own(Here here, Pass& pass, bool evaluates, const Moment& now) {
  pass.role_ = Pass::Role::kOwner;
  pass.evaluates_ = evaluates;
  pass.first_check_ = pass.fetches_ + 1;
  Opening what{.name = names().validation};
  if (!evaluates) what = {.name = names().epoch, .index = next_epoch_, .flags = record::kHasIndex};
  pass.scope_ = open(here, what, now);
  owners_.push_back(&pass);
}

// Training goes on while the iterators of validations live.
void Training::pause_checks(Here here, const Moment& now) {
  close_look(here, now);
  while (Pass* check = checking()) {
    settle();
    if (check->drained_) {
      finish(here.thread, *check, now);
      continue;
    }
    forget_forward(check->scope_, now);
    close_around(here.thread, check->scope_, now);
    owners_.pop_back();
    check->role_ = Pass::Role::kMember;
    check->nested_ = true;
  }
}

Pass* Training::checking() const {
  Pass* pass = innermost();
  const bool checks = pass != nullptr && pass->evaluates_ && !pass->trains_;
  return checks && record::is_open(pass->scope_) ? pass : nullptr;
}

Pass* Training::leader() const {
  // So many iterations on one batch: it is no longer the loader that feeds them.
  constexpr std::uint32_t kMostPerBatch = 16;
  if (since_fetch_ > kMostPerBatch) return nullptr;
  for (std::size_t i = known_.size(); i-- > 0;) {
    Pass* pass = known_[i];
    if (pass->parted_) continue;
    if (pass->trains_ || (!pass->evaluates_ && pass->role_ == Pass::Role::kOwner)) return pass;
  }
  return nullptr;
}

// A model ran, a backward or an optimizer step came: on batches of all that have fetched.
void Training::use_batches() noexcept {
  if (!fetched_) [[likely]]
    return;
  fetched_ = false;
  for (Pass* pass : known_) {
    pass->used_ = true;
    if (pass->ever_used_) continue;
    pass->ever_used_ = true;
    pass->group_ = pass->idle_;
    pass->ahead_ = pass->idle_ > 1 && pass->idle_ <= Pass::kFurthestAhead ? pass->idle_ - 1 : 0;
  }
}

void Training::use_newest(Pass& pass) noexcept {
  if (pass.training_ != this) return;
  if (!pass.ever_used_) pass.group_ = pass.idle_;  // else the step of an optimizer has begun
  pass.ever_used_ = true;
  pass.ahead_ = 0;
}

// The batches that were fetched for this step are trained with.
void Training::prove() {
  proven_ = knows_training_ = true;
  trains_in_eval_ = trains_in_eval_ || (hinted_ && !bare_);
  if (Pass* pass = innermost(); pass != nullptr && !pass->evaluates_) pass->trains_ = true;
  for (Pass* pass : known_) {
    // A batch that came in the middle of an iteration without a loader proves nothing.
    const bool stray = record::is_open(fallback_epoch_) && step_pass_ != pass;
    if (pass->unproven_ && !pass->evaluates_ && !stray) pass->trains_ = true;
    pass->unproven_ = false;
  }
}

void Training::note_failure() {
  if (last_ != nullptr) last_->failed_ = true;
  if (Pass* pass = innermost()) pass->failed_ = true;
}

void Training::forget(Pass& pass) {
  plain_ = false;
  std::erase(known_, &pass);
  std::erase(owners_, &pass);
  if (last_ == &pass) last_ = nullptr;
  if (peeked_ == &pass) peeked_ = nullptr;
  if (step_pass_ == &pass) step_pass_ = nullptr;
  if (owed_ == &pass) owed_ = nullptr;
  if (left_of_ == &pass) left_of_ = nullptr;
  pass.again_ = pass.role_ != Pass::Role::kNone;
  pass.role_ = Pass::Role::kNone;
  pass.training_ = nullptr;
  pass.scope_ = {};
  std::erase_if(kept_, [&](const auto& kept) { return kept.get() == &pass; });  // the last use
}

// One batch, and nothing done with it.
bool Training::is_look(const Pass& pass) noexcept {
  return pass.fetches_ <= 1 && !pass.trains_ && !pass.ever_used_;
}

bool Training::is_epoch(const Pass& pass) noexcept {
  return !is_look(pass) && !pass.nested_ && (pass.trains_ || !pass.evaluates_);
}

// It has fed another's epoch, and is over. If that one has fetched nothing in the meantime, so may
// the epoch be.
void Training::note_fed(const Pass& pass) noexcept {
  for (const Pass* outer : owners_) {
    if (outer->scope_.sequence != pass.outer_scope_ || outer->fetches_ != pass.outer_fetches_)
      continue;
    fed_by_ = pass.source_;
    fed_scope_ = pass.outer_scope_;
    fed_fetches_ = pass.outer_fetches_;
  }
}

// The loop was left right behind a fetch: that has opened a step, which is none.
void Training::drop_last_fetch(ThreadState& thread, Pass& pass) {
  const bool fetched = step_pass_ == &pass && pass.ever_used_ && !pass.evaluates_ && !proven_ &&
                       pass.role_ == Pass::Role::kOwner && record::is_open(pass.scope_);
  if (!fetched || !step_open() || !record::is_innermost(step_) || has_children(step_.sequence))
    return;
  if (leaves_.empty() || !leaves_.only_loads() || leaves_.parent() != step_.sequence) return;
  if (untouched(thread) && cancel_step()) leaves_.move(0, pass.scope_.sequence);
}

void Training::finish(ThreadState& thread, Pass& pass, const Moment& now) {
  drop_last_fetch(thread, pass);
  if (pass.role_ == Pass::Role::kOwner || step_pass_ == &pass) settle();
  remember(pass);
  if (Pass* check = checking(); check != nullptr && check != &pass) check->had_member_ = true;
  if (pass.role_ == Pass::Role::kMember && pass.trains_) note_fed(pass);
  if (pass.role_ != Pass::Role::kOwner || !pass.scope_) {
    end_own_step(thread, pass, now);
    return forget(pass);
  }
  const bool open = record::is_open(pass.scope_);
  const auto inside = [&](const record::ScopeHandle& scope) {
    return open && record::is_open(scope) && scope.stack == pass.scope_.stack &&
           scope.slot > pass.scope_.slot;
  };
  if (inside(look_)) {
    forget_forward(look_, now);
    close(thread, look_, now);
  }
  if (open && pass.evaluates_ && !pass.trains_) forget_forward(pass.scope_, now);
  if (inside(step_) && !(step_is_empty(thread) && cancel_step())) close_step_around(thread, now);
  if (is_look(pass)) {
    record::relabel_scope(pass.scope_, names().peek, record::kNoIndex);
  } else if (is_epoch(pass)) {
    report_epoch(pass.scope_.sequence, next_epoch_);
    ++next_epoch_;
    cycle_.reset();
    for (Pass* member : known_) member->parted_ = member->role_ == Pass::Role::kMember;
  }
  // A validation of nothing is none.
  const bool empty = pass.evaluates_ && !pass.trains_ && open &&
                     record::is_innermost(pass.scope_) &&
                     thread.lane->next_sequence == pass.scope_.sequence + 2;
  if (!empty || !cancel(pass.scope_)) {
    if (holds_program(pass.scope_)) {
      close_around(thread, pass.scope_, now);
    } else {
      close(thread, pass.scope_, now);
    }
  }
  forget(pass);
  drop_closed(false);
}

// The iterator goes to another stack, or is gone.
void Training::leave(ThreadState& thread, Pass& pass) noexcept {
  Training* training = pass.training_;
  if (training == nullptr) return;
  if (training->generation_ != thread.generation || !training->of_this_session())
    return training->forget(pass);
  // One batch and nothing done with it: that was a look, not an epoch.
  if (training->peeked_ == &pass && training->drop_peek(thread, pass)) return;
  const Moment now;
  const Here there{thread, *training->stack_};
  if ((&pass == training->last_ || pass.role_ == Pass::Role::kOwner) &&
      training->stack_->tenancy == training->tenancy_) {
    training->begin_event(there);
    if (training->announced_ == 0) training->conclude(there, now);
  }
  const bool waits = pass.waits_;
  const bool last = &pass == training->last_ && thread.lane == training->stack_;
  training->finish(thread, pass, now);
  // Nobody fetches the next batches any more, so there are none left.
  if (Pass* outer = training->innermost();
      waits && outer != nullptr && outer->drained_ && outer->on_last() && training->done_)
    training->finish(thread, *outer, now);
  if (last) training->open_owed_step(there, now);
  training->end_event(there);
}

void Training::end_pass(ThreadState* thread, std::unique_ptr<Pass> pass) noexcept {
  Training* training = pass->training_;
  if (training == nullptr) return;
  if (thread == nullptr) return training->forget(*pass);
  if (pass->drained_ && training->generation_ == thread->generation &&
      training->of_this_session()) {
    training->kept_.push_back(std::move(pass));
    return;
  }
  leave(*thread, *pass);
}

}  // namespace sonde::hook
