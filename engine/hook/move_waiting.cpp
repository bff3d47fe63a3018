// Batches that are fetched but not trained with yet: those that are left when a loader that is
// fetched ahead has no more, and one that waits while there is a validation.
#include <utility>

#include "engine/hook/moves.h"

namespace sonde::hook {

// -- of a loader that has no more (rule 4) --

// A step begins: if nothing more is fetched, it is on batches that are left.
void use_left(Seen& seen) noexcept {
  seen.step.left_of = nullptr;
  Pass* pass = seen.passes.leader();
  if (pass == nullptr || !pass->drained) return;
  if (seen.step.done && seen.step.owed != pass && !pass->on_last()) {
    pass->left -= pass->per_step;
    seen.step.left_of = pass;
  }
  seen.epochs.final_batch = pass->on_last();
}

// The next of the batches that are left, which begins with the leaves. On the last one, the epoch
// is over.
void next_left(Seen& seen, Here here, Pass& pass, const Moment& now) {
  Leaves mine =
      seen.leaves.split(seen.leaves.empty() ? 0 : first_trained(seen.leaves, seen.learnt.bare));
  const Moment start = mine.empty() ? Moment(now) : Moment(mine.front());
  const bool last = pass.on_last();
  settle(seen);
  if (last) {
    finish(seen, here.thread, pass, start);
  } else if (seen.step.is_open_innermost()) {
    close_step(seen, here.thread, start);
    if (!seen.levels(here.stack).step) open_step(seen, here, -1, start);
  } else {
    use_left(seen);
    if (!seen.step.is_open() || !replace_step(seen, here)) {
      seen.step.done = seen.step.proven = false;
      seen.cycle.begin();
    }
  }
  const bool in_step = !last && seen.step.is_open();
  seen.leaves = std::move(mine);
  seen.leaves.move(0, in_step ? seen.step.scope.sequence : record::current_parent(here.stack));
}

// -- of one that waits (rule 3) --

// The place of a validation that is about to begin: the step before it ends, and one whose batch
// has been fetched and nothing more begins behind it.
void make_room_for_check(Seen& seen, Here here, const Moment& now) {
  if (!seen.step.is_open_innermost()) return;
  if (seen.step.done) return close_step(seen, here.thread, now);
  if (seen.step.proven || !seen.leaves.only_loads() || !seen.others.untouched(here.thread)) return;
  if (!seen.leaves.empty() && seen.leaves.parent() != seen.step.scope.sequence) return;
  Pass* pass = seen.step.pass;
  if (!cancel_step(seen)) return;
  seen.leaves.move(0, record::current_parent(here.stack));
  seen.step.owed = pass;
}

// A validation came between a fetch and the use of its batch: the step begins now, before the
// program opens a scope for it.
void open_owed_step(Seen& seen, Here here, const Moment& now) {
  Pass* pass = seen.step.owed;
  if (pass == nullptr || seen.step.is_open() || seen.passes.checking() != nullptr) return;
  const Levels taken = seen.levels(here.stack);
  if (taken.step || seen.is_inside_scope(record::current_parent(here.stack), taken, here.stack))
    return;
  settle(seen);
  open_step(seen, here, -1, now);
  seen.step.pass = pass;
  if (pass->steps == 0) pass->steps = pass->step_fetch = 1;
  seen.step.reopened = true;
  seen.others.touched = false;
}

}  // namespace sonde::hook
