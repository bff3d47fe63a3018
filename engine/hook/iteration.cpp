// Steps and epochs of loops without a loader (rule 5).
#include <utility>

#include "engine/hook/names.h"
#include "engine/hook/transitions.h"

namespace sonde::hook {

using record::ThreadState;

// Opens a step, and before it an epoch where there is none or the last one is full. False: a scope
// of the program's reaches across, and the step that is open goes on.
bool Transitions::next_iteration(Here here, const Moment& now) {
  if (step_.is_open()) {
    if (!step_.is_on(here.stack)) return false;
    if (!record::is_innermost(step_.scope)) return replace_step(here);
    settle();
    close_step(here.thread, now);
  }
  if (is_counted_full() && record::is_innermost(counted_.scope)) {
    report_epoch(counted_.scope.sequence);
    close_span(here.thread, counted_.scope, now);
    counted_.full_parent = record::current_parent(here.stack);
  }
  open_counted(here, now);
  open_step(here, -1, now);
  return true;
}

// A scope of the program's that was opened behind the end of the step is the beginning of the next
// one, which takes the step's place below it. False: a scope reaches across.
bool Transitions::replace_step(Here here) {
  if (!step_.ends_below_scope()) return false;
  const Moment start = Moment::at(record::above(step_.scope).start_ns());
  const bool full = is_counted_full() && counted_.scope.slot + 1 == step_.scope.slot;
  if (!leaves_.empty() && leaves_.only_evaluation() && leaves_.parent() == step_.scope.sequence) {
    const Moment end(leaves_.front());
    write_check(here, end, start);
    renew_span(here.thread, step_.scope, full ? 0 : step_.next, end, start);
  } else {
    settle();
    renew_span(here.thread, step_.scope, full ? 0 : step_.next, start, start);
  }
  if (full) {
    report_epoch(counted_.scope.sequence);
    counted_.full_parent = counted_.parent;
    renew_span(here.thread, counted_.scope, epochs_.next, start, start);
    step_.epoch = counted_.scope.sequence;
    step_.next = 0;
  }
  step_.replace();
  cycle_.begin();
  return true;
}

void Transitions::open_counted(Here here, const Moment& now) {
  if (counted_.is_open()) return;
  const std::uint32_t depth = record::depth_of(here.stack);
  if (depth >= counted_.short_depth || passes_.innermost() != nullptr || levels(here.stack).epoch)
    return;
  counted_.parent = record::current_parent(here.stack);
  counted_.scope = open_span(
      here, {.name = names().epoch, .index = epochs_.next, .flags = record::kHasIndex}, now);
}

void Transitions::end_counted(ThreadState& thread, const Moment& now) {
  if (!counted_.scope) return;
  report_epoch(counted_.scope.sequence);
  if (counted_.is_open()) {
    if (step_.is_open() && step_.scope.slot > counted_.scope.slot) close_step(thread, now);
    close_span(thread, counted_.scope, now);
  }
  counted_.scope = {};
  cycle_.reset();
}

// A step begins where the leaves do, and they are all its own.
void Transitions::step_with_leaves(Here here, const Moment& start) {
  const Leaves mine = std::exchange(leaves_, {});
  if (step_.owed != nullptr && !step_.is_open()) open_owed_step(here, start);
  if (!step_.goes_on()) {  // otherwise it is accumulating
    if (passes_.leader() == nullptr) {
      next_iteration(here, start);
    } else if (!step_.is_open() && !levels(here.stack).step) {
      open_step(here, -1, start);
    }
  }
  leaves_ = mine;
  leaves_.move(0, step_.is_open() ? step_.scope.sequence : record::current_parent(here.stack));
}

// -- what belongs to the next iteration --

// A step begins, with what came before it and is certain to be a part of it.
void Transitions::begin_with_leaves(Here here, const Moment& now) {
  const bool theirs = !leaves_.empty() && leaves_.parent() == record::current_parent(here.stack);
  Leaves mine = leaves_.split(theirs ? leaves_.behind_stuck() : leaves_.size());
  settle();
  const Moment start = mine.empty() ? Moment(now) : Moment(mine.front());
  leaves_ = std::move(mine);
  step_with_leaves(here, start);
}

// The leading optimizer steps again, so the step before ended where these forwards began; those at
// the front that no backward used were an evaluation's.
void Transitions::begin_behind_leaves(Here here, const Moment& now) {
  const std::size_t first = first_trained(leaves_, learnt_.bare);
  const Moment start = first < leaves_.size() ? Moment(leaves_[first]) : Moment(now);
  if (first > 0) {
    carve_check(here);
    if (look_.is_open()) close_span(here.thread, look_.scope, start);
  }
  Leaves mine = leaves_.split(first);
  settle();
  const bool begun = next_iteration(here, start);
  leaves_ = std::move(mine);
  if (begun) leaves_.move(0, step_.scope.sequence);
}

// Forwards were taken for a part of the step that a backward did not go through: they were an
// evaluation's, and the step begins behind them.
void Transitions::split_iteration(Here here, std::size_t first) {
  const Moment begin(leaves_.front()), start(leaves_[first]);
  const bool lonely = began_epoch();
  Leaves mine = leaves_.split(first);
  if (lonely && !parents_.has(step_.scope.sequence) && cancel_step()) {
    cancel(counted_.scope);
    leaves_.move(0, record::current_parent(here.stack));
    open_look(here, begin);
    if (look_.is_open()) leaves_.move(0, look_.scope.sequence);
    close_look(here, start);
  } else {
    record::ScopeHandle check = step_.scope;
    record::relabel_scope(check, names().validation, record::kNoIndex);
    take_step_back();
    close_span(here.thread, check, start);
  }
  settle();
  leaves_ = std::move(mine);
  step_with_leaves(here, start);
  step_.proven = true;
}

}  // namespace sonde::hook
