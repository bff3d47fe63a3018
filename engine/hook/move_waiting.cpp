// Batches that are fetched but not trained with yet: those that are left when a loader that was
// fetched ahead is exhausted, and one that waits while a validation runs.
#include <utility>

#include "engine/hook/judge.h"
#include "engine/hook/leaves.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/pass.h"
#include "engine/hook/seen.h"
#include "engine/record/lane.h"

namespace sonde::hook {

// -- batches that are left of a loader that is exhausted (rule 4) --

// A step begins. If the loader is exhausted, the step is on batches that are left.
void use_left(Seen& seen) noexcept {
  seen.step.note_left(nullptr);
  Pass* pass = seen.passes.leader();
  if (pass == nullptr || !pass->fetch.drained) return;
  if (seen.step.done() && seen.passes.owed != pass && !pass->on_last()) {
    pass->fetch.left -= pass->batches.per_step;
    seen.step.note_left(pass);
  }
  seen.epochs.final_batch = pass->on_last();
}

// A step on the next of the batches that are left begins, with the leaves. If the last step was on
// the last batches, the epoch is over.
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
      seen.step.begin_unnumbered();
      seen.cycle.begin();
    }
  }
  const bool in_step = !last && seen.step.is_open();
  seen.leaves = std::move(mine);
  seen.leaves.move(0, in_step ? seen.step.handle().sequence : record::current_parent(here.stack));
}

// -- a batch that waits for the end of a validation (rule 3) --

void make_room_for_check(Seen& seen, Here here, const Moment& now) {
  const Step& step = seen.step;
  const Leaves& leaves = seen.leaves;
  const bool in_step = leaves.empty() || leaves.parent() == step.handle().sequence;
  const Room room = judge_room({.innermost = step.is_open_innermost(),
                                .done = step.done(),
                                .proven = step.proven(),
                                .only_fetches = leaves.only_loads() && in_step,
                                .untouched = seen.others.untouched(here.thread)});
  if (room == Room::kStepEnds) close_step(seen, here.thread, now);
  if (room != Room::kStepWaits) return;
  Pass* pass = step.pass();
  if (!cancel_step(seen)) return;
  seen.leaves.move(0, record::current_parent(here.stack));
  seen.passes.owed = pass;
}

// A validation came between a fetch and the use of its batch: the step begins now, before the
// program opens a scope for it.
void open_owed_step(Seen& seen, Here here, const Moment& now) {
  Pass* pass = seen.passes.owed;
  if (pass == nullptr || seen.step.is_open() || seen.passes.checking() != nullptr) return;
  const Levels taken = seen.levels(here.stack);
  if (taken.step || seen.is_inside_scope(record::current_parent(here.stack), taken, here.stack))
    return;
  settle(seen);
  open_step(seen, here, -1, now);
  seen.step.note_reopened(*pass);
  if (pass->batches.steps == 0) pass->batches.steps = pass->batches.step_fetch = 1;
  seen.others.touched = false;
}

}  // namespace sonde::hook
