// Batches that are fetched but not trained with yet: those that are left when a loader that is
// fetched ahead has no more, and one that waits while there is a validation.
#include <algorithm>
#include <utility>

#include "engine/hook/training.h"

namespace sonde::hook {

using record::ThreadState;

// -- of a loader that has no more --

// Its last fetch has opened a step.
void Pass::note_step() noexcept {
  // Before the second one, batches were fetched ahead.
  if (const std::uint64_t others = steps_ == 1 ? 1 + ahead_ : step_fetch_; steps_ > 0)
    per_step_ = static_cast<std::uint32_t>(fetches_ > others ? fetches_ - others : 1);
  step_fetch_ = fetches_;
  ++steps_;
}

// Batches that no finished step was on, now that there are no more. (The last fetch gave none.)
std::uint32_t Pass::unfinished() noexcept {
  if (!ever_used_) return idle_ - 1;
  if (ahead_ == 0) {
    // Where they are taken in groups, the last ones are a smaller one, for one step.
    const bool rest = group_ > 1 && idle_ > 1 && idle_ - 1 < group_;
    if (rest) per_step_ = idle_ - 1;
    return rest ? per_step_ : 0;
  }
  if (steps_ <= 1) return ahead_;
  const std::uint64_t before = step_fetch_ - 1;
  return static_cast<std::uint32_t>(fetches_ - 1 -
                                    (before - std::min<std::uint64_t>(before, ahead_)));
}

// No more is fetched, but batches are left. True: those have been trained with, and the epoch is
// over.
bool Training::drain(Here here, const Moment& now) {
  Pass* pass = leader();
  // Another optimizer may be to come.
  if (!done_ || owed_ == pass || (!cycle_.full() && (cycle_.known() || !sure_))) return false;
  if (evaluates_ && !pass->on_last()) return false;
  settle();
  return next_left(here, *pass, now);
}

// A step begins: if nothing more is fetched, it is on batches that are left.
void Training::use_left() noexcept {
  left_of_ = nullptr;
  Pass* pass = leader();
  if (pass == nullptr || !pass->drained_) return;
  if (done_ && owed_ != pass && !pass->on_last()) {
    pass->left_ -= pass->per_step_;
    left_of_ = pass;
  }
  final_batch_ = pass->on_last();
}

// The next of the batches that are left, which begins with the leaves. True: there was none.
bool Training::next_left(Here here, Pass& pass, const Moment& now) {
  Leaves mine = leaves_.split(leaves_.empty() ? 0 : first_trained());
  const Moment start = mine.empty() ? Moment(now) : Moment(mine.front());
  const bool last = pass.on_last();
  settle();
  if (last) {
    finish(here.thread, pass, start);
  } else {
    if (step_open() && record::is_innermost(step_)) {
      close_step(here.thread, start);
      if (!taken(here.stack, Level::kStep)) open_step(here, -1, start);
    } else {
      use_left();
      if (!step_open() || !replace_step(here)) {
        done_ = proven_ = false;
        cycle_.begin();
      }
    }
  }
  leaves_ = std::move(mine);
  leaves_.move(0, !last && step_open() ? step_.sequence : record::current_parent(here.stack));
  return last;
}

// -- of one that waits --

// The place of a validation that is about to begin: the step before it ends, and one whose batch
// has been fetched and nothing more begins behind it.
void Training::make_room_for_check(Here here, const Moment& now) {
  if (!step_open() || !record::is_innermost(step_)) return;
  if (done_) return close_step(here.thread, now);
  if (proven_ || !leaves_.only_loads() || !untouched(here.thread)) return;
  if (!leaves_.empty() && leaves_.parent() != step_.sequence) return;
  Pass* pass = step_pass_;
  if (!cancel_step()) return;
  leaves_.move(0, record::current_parent(here.stack));
  owed_ = pass;
}

// Did it begin behind a validation, and nothing came?
bool Training::step_is_empty(const ThreadState& thread) const noexcept {
  return reopened_ && step_open() && thread.lane->next_sequence == step_.sequence + 1;
}

// A validation came between a fetch and what is done with its batch: the step begins now, before
// the program opens a scope of its own for it.
void Training::open_owed_step(Here here, const Moment& now) {
  Pass* pass = owed_;
  if (pass == nullptr || step_open() || inside_scope(here.stack) || checking() != nullptr ||
      taken(here.stack, Level::kStep))
    return;
  settle();
  open_step(here, -1, now);
  step_pass_ = pass;
  if (pass->steps_ == 0) pass->steps_ = pass->step_fetch_ = 1;
  reopened_ = true;
  touched_ = false;
}

}  // namespace sonde::hook
