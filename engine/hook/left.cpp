// Batches that are fetched but not trained with yet: those that are left when a loader that is
// fetched ahead has no more, and one that waits while there is a validation.
#include <utility>

#include "engine/hook/transitions.h"

namespace sonde::hook {

// -- of a loader that has no more (rule 4) --

// A step begins: if nothing more is fetched, it is on batches that are left.
void Transitions::use_left() noexcept {
  step_.left_of = nullptr;
  Pass* pass = passes_.leader();
  if (pass == nullptr || !pass->drained) return;
  if (step_.done && step_.owed != pass && !pass->on_last()) {
    pass->left -= pass->per_step;
    step_.left_of = pass;
  }
  epochs_.final_batch = pass->on_last();
}

// The next of the batches that are left, which begins with the leaves. On the last one, the epoch
// is over.
void Transitions::next_left(Here here, Pass& pass, const Moment& now) {
  Leaves mine = leaves_.split(leaves_.empty() ? 0 : first_trained(leaves_, learnt_.bare));
  const Moment start = mine.empty() ? Moment(now) : Moment(mine.front());
  const bool last = pass.on_last();
  settle();
  if (last) {
    finish(here.thread, pass, start);
  } else if (step_.is_open_innermost()) {
    close_step(here.thread, start);
    if (!levels(here.stack).step) open_step(here, -1, start);
  } else {
    use_left();
    if (!step_.is_open() || !replace_step(here)) {
      step_.done = step_.proven = false;
      cycle_.begin();
    }
  }
  const bool in_step = !last && step_.is_open();
  leaves_ = std::move(mine);
  leaves_.move(0, in_step ? step_.scope.sequence : record::current_parent(here.stack));
}

// -- of one that waits (rule 3) --

// The place of a validation that is about to begin: the step before it ends, and one whose batch
// has been fetched and nothing more begins behind it.
void Transitions::make_room_for_check(Here here, const Moment& now) {
  if (!step_.is_open_innermost()) return;
  if (step_.done) return close_step(here.thread, now);
  if (step_.proven || !leaves_.only_loads() || !others_.untouched(here.thread)) return;
  if (!leaves_.empty() && leaves_.parent() != step_.scope.sequence) return;
  Pass* pass = step_.pass;
  if (!cancel_step()) return;
  leaves_.move(0, record::current_parent(here.stack));
  step_.owed = pass;
}

// A validation came between a fetch and what is done with its batch: the step begins now, before
// the program opens a scope of its own for it.
void Transitions::open_owed_step(Here here, const Moment& now) {
  Pass* pass = step_.owed;
  if (pass == nullptr || step_.is_open() || passes_.checking() != nullptr) return;
  const Levels taken = levels(here.stack);
  if (taken.step || is_inside_scope(record::current_parent(here.stack), taken, here.stack)) return;
  settle();
  open_step(here, -1, now);
  step_.pass = pass;
  if (pass->steps == 0) pass->steps = pass->step_fetch = 1;
  step_.reopened = true;
  others_.touched = false;
}

}  // namespace sonde::hook
