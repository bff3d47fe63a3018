// What a pass over a loader turns out to be: an epoch, a validation, a part of either, or a look.
#include <algorithm>

#include "engine/hook/names.h"
#include "engine/hook/training.h"

namespace sonde::hook {

using record::OpenScope;
using record::ThreadState;

// A pass that saw an epoch's owner, or another epoch of ours, feeds that one; what looks like
// validation gets a scope of its own in there.
void Training::begin_pass(Here here, Pass& pass, Hint hint, const Moment& now) {
  pass.training_ = this;
  pass.failed_ = pass.saw_train_ = pass.saw_eval_ = false;
  pass.fetches_ = 0;
  pass.first_at_ = here.thread.lane->next_sequence;
  // What is open from before is none of a trainer's business.
  const bool announced = announced_ > 0;
  if (!loader_seen_ && !announced) {
    loader_seen_ = true;
    end_fallback(here.thread, now);
  }
  // A loader that was trained with is likely to be so again, in whatever mode the model is.
  const bool evaluates =
      hint == Hint::kGradientsOff || (hint == Hint::kModelInEval && !trained_before(pass.source_));
  // One batch was looked at, and now its loader begins anew: that was a peek.
  if (held_ != nullptr && held_ != &pass && held_->source_ == pass.source_ && !pass.again_ &&
      pass.made_at_ > held_->first_at_)
    drop_peek(here.thread);
  confirm(here.thread);
  while (Pass* outer = announced ? nullptr : innermost()) {
    if (!is_over(*outer, pass, evaluates)) break;
    finish(here.thread, *outer, now);
  }
  if (taken(here.stack, Level::kValidation)) {
    pass.role_ = Pass::Role::kMember;
    pass.eval_ = true;
  } else if (taken(here.stack, Level::kEpoch) || innermost() != nullptr) {
    pass.nested_ = true;
    pass.eval_ = evaluates;
    if (evaluates) {
      own(here, pass, true, now);
    } else {
      pass.role_ = Pass::Role::kMember;
    }
  } else {
    pass.nested_ = false;
    own(here, pass, evaluates, now);
  }
  known_.push_back(&pass);
  settled_ = false;
  if (const Pass* outer = innermost()) pass.outer_fetches_ = outer->fetches_;
}

// Does `next` show that nothing more will come from `outer`, although its iterator lives?
bool Training::is_over(const Pass& outer, const Pass& next, bool next_evaluates) const {
  if (!record::is_open(outer.scope_)) return true;
  if (next_evaluates || next.again_) return false;  // a validation, or a companion
  if (outer.failed_) return true;
  // The loader begins anew. (Iterators made before the first fetch are companions, as in zip.)
  if (outer.source_ == next.source_ && next.made_at_ > outer.first_at_) return true;
  // It was fed by this loader before, and has not fetched since.
  return fed_by_ == next.source_ && fed_scope_ == outer.scope_.sequence &&
         fed_fetches_ == outer.fetches_;
}

bool Training::trained_before(const void* source) const {
  return std::find(trained_.begin(), trained_.end(), source) != trained_.end();
}

void Training::own(Here here, Pass& pass, bool eval, const Moment& now) {
  pass.role_ = Pass::Role::kOwner;
  pass.eval_ = eval;
  record::ScopeStart start;
  start.name = eval ? names().validation : names().epoch;
  if (!eval) {
    start.index = next_epoch_;
    start.flags = record::kHasIndex;
  }
  // From where the iterator was asked for (workers are started there), unless something else came
  // between.
  if (pass.made_at_ == here.thread.lane->next_sequence) start.start_ns = pass.made_ns_;
  pass.scope_ = open(here, start, now);
  owners_.push_back(&pass);
}

// What the pass is called, from what it has seen so far.
void Training::label(Pass& pass) {
  if (pass.role_ != Pass::Role::kOwner) return;
  if (pass.saw_train_ && !pass.nested_) {
    record::relabel_scope(pass.scope_, names().epoch, next_epoch_);
  } else if (pass.saw_train_) {
    record::relabel_scope(pass.scope_, names().epoch, record::kNoIndex);
  } else if (pass.saw_eval_) {
    record::relabel_scope(pass.scope_, names().validation, record::kNoIndex);
  }
}

void Training::forget(Pass& pass) {
  settled_ = false;
  std::erase(known_, &pass);
  std::erase(owners_, &pass);
  if (last_ == &pass) last_ = nullptr;
  if (step_pass_ == &pass) step_pass_ = nullptr;
  if (held_ == &pass) held_ = nullptr;
  pass.again_ = pass.role_ != Pass::Role::kNone;
  pass.role_ = Pass::Role::kNone;
  pass.training_ = nullptr;
  pass.scope_ = {};
}

// One batch, and nothing done with it.
bool Training::is_look(const Pass& pass) noexcept {
  return pass.fetches_ <= 1 && !pass.saw_train_ && !pass.saw_eval_;
}

bool Training::is_epoch(const Pass& pass) noexcept {
  return !is_look(pass) && !pass.nested_ && (pass.saw_train_ || (!pass.eval_ && !pass.saw_eval_));
}

void Training::finish(ThreadState& thread, Pass& pass, const Moment& now) {
  if (held_ == &pass) confirm(thread);
  if (pass.saw_train_ != trained_before(pass.source_)) {
    constexpr std::size_t kRemembered = 16;
    if (!pass.saw_train_) {
      if (pass.saw_eval_) std::erase(trained_, pass.source_);
    } else {
      if (trained_.size() == kRemembered) trained_.erase(trained_.begin());
      trained_.push_back(pass.source_);
    }
  }
  if (const Pass* outer = innermost(); outer != nullptr && outer != &pass &&
                                       pass.role_ == Pass::Role::kMember && pass.saw_train_ &&
                                       pass.outer_fetches_ == outer->fetches_) {
    fed_by_ = pass.source_;
    fed_scope_ = outer->scope_.sequence;
    fed_fetches_ = outer->fetches_;
  }
  if (pass.role_ == Pass::Role::kOwner && pass.scope_) {
    const bool open = record::is_open(pass.scope_);
    if (open && record::is_open(step_) && step_.stack == pass.scope_.stack &&
        step_.slot > pass.scope_.slot)
      close_step(thread, now);
    if (is_look(pass)) {
      record::relabel_scope(pass.scope_, names().peek, record::kNoIndex);
    } else if (is_epoch(pass)) {
      report_epoch(pass.scope_.sequence, next_epoch_);
      ++next_epoch_;
    }
    close(thread, pass.scope_, now);
  } else {
    end_own_step(thread, pass, now);
  }
  forget(pass);
}

void Training::end_pass(ThreadState* thread, Pass& pass) noexcept {
  Training* training = pass.training_;
  if (training == nullptr || thread == nullptr || training->generation_ != thread->generation ||
      !training->of_this_session()) {
    if (training != nullptr) training->forget(pass);
    return;
  }
  // One batch and nothing done with it: that was a look, not an epoch.
  if (training->held_ == &pass && pass.fetches_ == 1 && training->drop_peek(*thread)) return;
  training->finish(*thread, pass, Moment());
}

// -- the first data_load of a pass --

void Training::hold(ThreadState& thread, Pass& pass, const Moment& now) {
  const OpenScope& scope = pass.load_.stack->stack[pass.load_.slot];
  held_load_ = {.sequence = scope.sequence,
                .parent = scope.parent,
                .start_ns = scope.start_ns,
                .end_ns = now.ns,
                .aux = scope.aux,
                .name = scope.name,
                .flags = scope.flags.load(std::memory_order_relaxed)};
  if (!record::cancel_scope(pass.load_)) return;  // not the innermost: somebody leaves scopes open
  pass.load_ = {};
  if ((held_load_.flags & record::kHasGpu) != 0) held_load_.aux |= std::uint64_t{now.event()} << 32;
  held_ = &pass;
  held_at_ = thread.lane->next_sequence;
}

void Training::confirm(ThreadState& thread) {
  if (held_ == nullptr) return;
  held_ = nullptr;
  record::write_span(thread, held_load_);
}

// Nothing was recorded on this thread since the fetch that is held: its scopes have no children.
bool Training::untouched(const ThreadState& thread) const {
  return thread.lane->next_sequence == held_at_;
}

// Takes the scopes of a pass back that was only looked into; the fetch itself stays.
bool Training::drop_peek(ThreadState& thread) {
  Pass& pass = *held_;
  const bool owner = pass.role_ == Pass::Role::kOwner;
  if (!untouched(thread)) return false;
  if (pass.fresh_step_ && !cancel_step()) return false;
  if (owner && !cancel(pass.scope_)) return false;
  if (owner || pass.fresh_step_) held_load_.parent = record::current_parent(*stack_);
  confirm(thread);
  forget(pass);
  return true;
}

// The first thing done with the first batch is a forward in evaluation mode.
void Training::turn_into_validation(Here here) {
  Pass& pass = *held_;
  if (pass.eval_ || trained_before(pass.source_) || !untouched(here.thread) || !pass.fresh_step_ ||
      !cancel_step())
    return;
  pass.eval_ = true;
  if (pass.role_ == Pass::Role::kMember) {
    record::ScopeStart start;
    start.name = names().validation;
    start.start_ns = held_load_.start_ns;
    if ((held_load_.flags & record::kHasGpu) != 0) {
      start.flags = record::kHasGpu;
      start.aux = probe::gpu_share(static_cast<std::uint32_t>(held_load_.aux));
    }
    pass.scope_ = record::open_scope(here.thread, here.stack, start);
    pass.role_ = Pass::Role::kOwner;
    owners_.push_back(&pass);
  }
  held_load_.parent = record::current_parent(here.stack);
}

// It looked like validation (the model was left in evaluation mode by the last one), and is none:
// the first batch gets its step after all.
void Training::turn_into_training(Here here, const Moment& now) {
  Pass& pass = *held_;
  if (!pass.eval_ || pass.role_ != Pass::Role::kOwner || !untouched(here.thread)) return;
  if (pass.nested_) {
    if (!cancel(pass.scope_)) return;
    std::erase(owners_, &pass);
    pass.role_ = Pass::Role::kMember;
  }
  pass.eval_ = false;
  pass.saw_train_ = true;
  label(pass);
  if (!record::is_open(step_) && !taken(here.stack, Level::kStep)) {
    open_step(here, -1, now);
    step_pass_ = &pass;
    if (step_) here.stack.stack[step_.slot].start_ns = held_load_.start_ns;
  }
  held_load_.parent = record::current_parent(here.stack);
}

void Training::settle_as_training(Here here, const Moment& now) {
  if (settled_ && held_ == nullptr) [[likely]]
    return;
  if (held_ != nullptr) turn_into_training(here, now);
  confirm(here.thread);
  // A model in evaluation mode came first, and now there is training after all: what is left of the
  // first batch is its step.
  Pass* pass = last_;
  const bool late = pass != nullptr && pass->eval_ && !pass->saw_train_ && pass->fetches_ == 1 &&
                    pass->role_ == Pass::Role::kOwner && pass == innermost() &&
                    record::is_open(pass->scope_) && record::is_innermost(pass->scope_);
  note(Mode::kTrain);
  settled_ = true;
  if (late && !record::is_open(step_) && !taken(here.stack, Level::kStep)) {
    open_step(here, -1, now);
    step_pass_ = pass;
  }
}

}  // namespace sonde::hook
