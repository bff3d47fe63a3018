// Fetches from a loader, and the steps that they open.
#include "engine/hook/level.h"
#include "engine/hook/names.h"
#include "engine/hook/plain.h"
#include "engine/hook/training.h"

namespace sonde::hook {

using record::OpenScope;
using record::ThreadState;

void Training::begin_fetch(Here here, Pass& pass, Hint hint) noexcept {
  // A loader that reads from another loader: the outermost is what the program waits for.
  if (fetch_depth_++ > 0) return;
  const Moment now;
  const bool asked_again = pass.drained_ && pass.training_ == this;
  if (asked_again) [[unlikely]] {
    // It is asked once more, and has no more.
    begin_event(here);
  } else if (done_ && hint == Hint::kNone && step_pass_ == &pass && goes_on(here) &&
             leaves_.empty() && record::is_open(pass.scope_)) [[likely]] {
    begin_plain_fetch(here, pass, now);
  } else {
    begin_other_fetch(here, pass, hint, now);
  }
  pend_ = announced_ == 0 && !asked_again;
  pass.load_ = open(here, {.name = names().data_load, .flags = record::kIsFetch}, now);
  pass.load_at_ = pass.load_.sequence;
  end_event(here);
}

// The next batch of the loader that makes the epoch, behind a step.
void Training::begin_plain_fetch(Here here, Pass& pass, const Moment& now) {
  close_step(here.thread, now);
  pass.off_ = pass.had_member_ = false;
  note_fetch(pass);
  final_batch_ = pass.fetches_ == pass.length_ + pass.ahead_;
  open_next_step(here, next_step_, now);
  step_pass_ = &pass;
  pass.fresh_step_ = true;
  pass.note_step();
  touched_ = false;
}

void Training::note_fetch(Pass& pass) noexcept {
  ++pass.fetches_;
  pass.idle_ = pass.used_ ? 1 : pass.idle_ + 1;
  // Several at a time, again and again: that is not ahead, but for one step.
  if (pass.ever_used_ && pass.idle_ > 1) pass.ahead_ = 0;
  pass.used_ = pass.failed_ = pass.parted_ = false;
  pass.unproven_ = fetched_ = true;
  since_fetch_ = 0;
  last_ = &pass;
}

void Training::begin_other_fetch(Here here, Pass& pass, Hint hint, const Moment& now) {
  begin_event(here);
  // A trainer's closure may fetch for itself; otherwise nobody fetches inside an optimizer.
  if (!optimizer_.apart) close_stale_optimizers(here.thread, now);
  if (pass.training_ != nullptr && pass.training_ != this) leave(here.thread, pass);
  // A pass begins where its iterator was asked for (workers are started there), unless something
  // else came between; what was before it ends there.
  const bool begins = pass.training_ == nullptr;
  const bool direct = begins && pass.made_at_ == here.thread.lane->next_sequence &&
                      pass.made_depth_ == here.stack.depth.load(std::memory_order_relaxed);
  const Moment start = direct ? now.since(pass.made_ns_) : Moment(now);
  if (announced_ == 0) conclude(here, start, &pass);
  const bool checks =
      begins ? begin_pass(here, pass, hint, start) : resume_pass(here, pass, hint, start);
  peeked_ = nullptr;
  note_fetch(pass);
  const std::uint64_t before = step_.sequence;
  if (!checks) {
    // What makes the epoch, where that is another pass, or an owner's, which this one stands for.
    const Pass* leading = innermost();
    if (leading == nullptr || leading->evaluates_) leading = &pass;
    final_batch_ = leading->fetches_ == leading->length_ + leading->ahead_;
    rotate_step(here, now);
  }
  pass.fresh_step_ = step_ && step_.sequence != before;
  if (pass.fresh_step_) {
    step_pass_ = &pass;
    pass.note_step();
  }
  if (pass.fresh_step_ || checks) touched_ = false;
}

void Training::end_fetch(Here here, Pass& pass, Fetched outcome, bool gpu_work,
                         std::string_view error) noexcept {
  if (fetch_depth_ == 0 || --fetch_depth_ > 0) return;
  if (pass.training_ != this) return;
  std::uint32_t begun = 0;
  if (!gpu_work && pass.load_) {
    const OpenScope& load = here.stack.stack[pass.load_.slot];
    if ((load.flags.load(std::memory_order_relaxed) & record::kHasGpu) != 0)
      begun = static_cast<std::uint32_t>(load.aux);
  }
  const Moment now = gpu_work ? Moment() : Moment(begun);
  switch (outcome) {
    case Fetched::kItem:
      end_leaf(here, pass.load_, Leaf::Kind::kLoad, now);
      if (!plain_) plain_ = begins_plain(pass);
      if (pass.fetches_ == 1 && leaves_.size() == 1) peeked_ = &pass;
      break;
    case Fetched::kEnd:
      end_passes_fetch(here, pass, now);
      break;
    case Fetched::kError:
      close(here.thread, pass.load_, now, error);
      pass.failed_ = true;
      plain_ = false;
      break;
  }
  end_event(here);
}

// Its fetch has opened a step: is that like the others, as far as can be told?
bool Training::begins_plain(const Pass& pass) const noexcept {
  const bool alone = known_.size() == 1 && owners_.size() == 1 && step_pass_ == &pass;
  const bool loops = pass.trains() && pass.ever_used_ && pass.fresh_step_ && !pass.drained_ &&
                     !pass.evaluates_ && !pass.waits_ && !pass.orphan_;
  const bool own = announced_ == 0 && trainers_ == 0 && claims_ == 0 && steps_by_optimizer_;
  const bool nothing_else = owed_ == nullptr && left_of_ == nullptr && !record::is_open(look_) &&
                            !record::is_open(fallback_epoch_) && !nested();
  return alone && loops && own && nothing_else && step_open() && record::is_innermost(step_) &&
         step_.stack == stack_;
}

// There was nothing more: neither a fetch nor a step. Unless the dataset recorded something.
void Training::end_passes_fetch(Here here, Pass& pass, const Moment& now) {
  plain_ = false;
  const bool nothing = pass.load_ && here.thread.lane->next_sequence == pass.load_.sequence + 1;
  const bool gone = nothing && cancel(pass.load_);
  if (!gone) close(here.thread, pass.load_, now);
  if (pass.drained_) return;
  const std::uint32_t left = pass.unfinished();
  if (left > 0 && left <= Pass::kFurthestAhead && pass.role_ == Pass::Role::kOwner &&
      record::is_open(pass.scope_)) {
    pass.drained_ = true;
    pass.left_ = left;
    final_batch_ = pass.on_last();
    return;
  }
  if (gone && pass.fresh_step_) cancel_step();
  // What it fed was over, or it was itself, and there was nothing more for an epoch of its own.
  if ((pass.fetches_ > 1 || pass.again_) && pass.first_check_ == pass.fetches_ &&
      pass.role_ == Pass::Role::kOwner && cancel(pass.scope_))
    return forget(pass);
  if (pass.fetches_ == 1) pass.fetches_ = 2;  // empty, but no peek
  finish(here.thread, pass, now);
  open_owed_step(here, now);
}

// -- steps --

bool Training::cancel_step() {
  if (!cancel(step_)) return false;
  take_step_back();
  return true;
}

// It was none: its number is free again.
void Training::take_step_back() noexcept {
  step_ = {};
  --next_step_;
  step_index_ = earlier_index_;
  done_ = earlier_done_;
  cycle_.take_back();
  if (left_of_ != nullptr) left_of_->left_ += left_of_->per_step_;
  left_of_ = nullptr;
}

void Training::rotate_step(Here here, const Moment& now) {
  if (record::is_open(step_)) {
    // Accumulating, or a scope of the program's reaches across: the step goes on.
    if (!done_ || step_.stack != &here.stack || !record::is_innermost(step_)) {
      if (!leaves_.only_loads()) settle();
      return;
    }
    close_step(here.thread, now);
  }
  settle();
  if (taken(here.stack, Level::kStep)) return;
  open_step(here, -1, now);
}

// What this pass opened, and nobody built upon.
void Training::end_own_step(ThreadState& thread, const Pass& pass, const Moment& now) {
  if (step_pass_ == &pass && record::is_open(step_) && record::is_innermost(step_))
    close_step(thread, now);
}

// Index -1: counted.
void Training::open_step(Here here, std::int64_t index, const Moment& now) {
  if (const std::uint64_t epoch = open_level(here.stack, names().epoch); epoch != step_epoch_) {
    step_epoch_ = epoch;
    next_step_ = 0;
  }
  use_left();
  open_next_step(here, index >= 0 ? index : next_step_, now);
}

void Training::open_next_step(Here here, std::int64_t index, const Moment& now) {
  earlier_index_ = step_index_;
  step_index_ = index;
  ++next_step_;
  step_ = open(here, {.name = names().step, .index = index, .flags = record::kHasIndex}, now);
  step_pass_ = owed_ = nullptr;
  earlier_done_ = done_;
  done_ = proven_ = reopened_ = false;
  cycle_.begin();
}

}  // namespace sonde::hook
