// Steps and epochs of loops without a loader (rule 5).
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/hook/judge.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/names.h"
#include "engine/hook/seen.h"
#include "engine/hook/spans.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

using record::ThreadState;

namespace {

void open_counted(Seen& seen, Here here, const Moment& now) {
  if (seen.counted.is_open()) return;
  const std::uint32_t depth = record::depth_of(here.stack);
  if (depth >= seen.counted.short_depth || seen.passes.innermost() != nullptr ||
      seen.levels(here.stack).epoch)
    return;
  seen.counted.parent = record::current_parent(here.stack);
  seen.counted.scope = open_span(
      here, {.name = names().epoch, .index = seen.epochs.next, .flags = record::kHasIndex}, now);
}

}  // namespace

// Opens a step, and before it an epoch where there is none or the last one is full.
bool next_iteration(Seen& seen, Here here, const Moment& now) {
  if (seen.step.is_open()) {
    if (!seen.step.is_on(here.stack)) return false;
    if (!record::is_innermost(seen.step.handle())) return replace_step(seen, here);
    settle(seen);
    close_step(seen, here.thread, now);
  }
  if (seen.is_counted_full() && record::is_innermost(seen.counted.scope)) {
    report_epoch(seen, seen.counted.scope.sequence);
    close_span(here.thread, seen.counted.scope, now);
    seen.counted.full_parent = record::current_parent(here.stack);
  }
  open_counted(seen, here, now);
  open_step(seen, here, -1, now);
  return true;
}

// The program has opened a scope inside the step after the step was done. The next step begins with
// that scope, and takes the place of the old step around it.
bool replace_step(Seen& seen, Here here) {
  if (!seen.step.ends_below_scope()) return false;
  const Moment start = Moment::at(record::above(seen.step.handle()).start_ns());
  const bool full =
      seen.is_counted_full() && record::is_directly_inside(seen.step.handle(), seen.counted.scope);
  if (!seen.leaves.empty() && seen.leaves.only_evaluation() &&
      seen.leaves.parent() == seen.step.handle().sequence) {
    const Moment end(seen.leaves.front());
    write_look(seen, here, end, start);
    renew_span(here.thread, seen.step.handle(), full ? 0 : seen.step.next(), end, start);
  } else {
    settle(seen);
    renew_span(here.thread, seen.step.handle(), full ? 0 : seen.step.next(), start, start);
  }
  if (full) {
    report_epoch(seen, seen.counted.scope.sequence);
    seen.counted.full_parent = seen.counted.parent;
    renew_span(here.thread, seen.counted.scope, seen.epochs.next, start, start);
    seen.step.count_anew(seen.counted.scope.sequence, 0);
  }
  seen.step.begin_in_place();
  seen.cycle.begin();
  return true;
}

void end_counted(Seen& seen, ThreadState& thread, const Moment& now) {
  if (!seen.counted.scope) return;
  report_epoch(seen, seen.counted.scope.sequence);
  if (seen.counted.is_open()) {
    if (seen.step.is_open() && record::is_inside(seen.step.handle(), seen.counted.scope))
      close_step(seen, thread, now);
    close_span(thread, seen.counted.scope, now);
  }
  seen.counted.scope = {};
  seen.cycle.reset();
}

void step_with_leaves(Seen& seen, Here here, const Moment& start) {
  const Leaves mine = std::exchange(seen.leaves, {});
  if (seen.passes.owed != nullptr && !seen.step.is_open()) open_owed_step(seen, here, start);
  if (!seen.step.goes_on()) {  // otherwise gradients are being accumulated
    if (seen.passes.leader() == nullptr) {
      next_iteration(seen, here, start);
    } else if (!seen.step.is_open() && !seen.levels(here.stack).step) {
      open_step(seen, here, -1, start);
    }
  }
  seen.leaves = mine;
  seen.leaves.move(
      0, seen.step.is_open() ? seen.step.handle().sequence : record::current_parent(here.stack));
}

// -- what belongs to the next iteration --

// A step begins, with those of the leaves that are certain to be a part of it.
void begin_with_leaves(Seen& seen, Here here, const Moment& now) {
  Leaves mine = seen.leaves.split(first_in_step(seen.leaves, record::current_parent(here.stack)));
  settle(seen);
  const Moment start = mine.empty() ? Moment(now) : Moment(mine.front());
  seen.leaves = std::move(mine);
  step_with_leaves(seen, here, start);
}

// The leading optimizer steps again, so the last step ended where the forwards among the leaves
// began. Forwards at the front that no backward used were an evaluation.
void begin_among_leaves(Seen& seen, Here here, const Moment& now) {
  const std::size_t first = first_trained(seen.leaves, seen.learnt.bare);
  const Moment start = first < seen.leaves.size() ? Moment(seen.leaves[first]) : Moment(now);
  if (first > 0) {
    carve_look(seen, here);
    if (seen.look.is_open()) close_span(here.thread, seen.look.scope, start);
  }
  Leaves mine = seen.leaves.split(first);
  settle(seen);
  const bool begun = next_iteration(seen, here, start);
  seen.leaves = std::move(mine);
  if (begun) seen.leaves.move(0, seen.step.handle().sequence);
}

// The backward did not go through forwards that were taken for a part of the step: they were an
// evaluation, and the step begins after them.
void split_iteration(Seen& seen, Here here, std::size_t first) {
  const Moment begin(seen.leaves.front()), start(seen.leaves[first]);
  const bool lonely = seen.began_epoch();
  Leaves mine = seen.leaves.split(first);
  if (lonely && !seen.parents.has(seen.step.handle().sequence) && cancel_step(seen)) {
    cancel(seen, seen.counted.scope);
    seen.leaves.move(0, record::current_parent(here.stack));
    open_look(seen, here, begin);
    if (seen.look.is_open()) seen.leaves.move(0, seen.look.scope.sequence);
    close_look(seen, here, start);
  } else {
    record::ScopeHandle look = seen.step.handle();
    record::relabel_scope(look, names().validation, record::kNoIndex);
    take_step_back(seen);
    close_span(here.thread, look, start);
  }
  settle(seen);
  seen.leaves = std::move(mine);
  step_with_leaves(seen, here, start);
  seen.step.note_proven();
}

}  // namespace sonde::hook
