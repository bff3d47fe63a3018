// Looks, which are validations without a loader: they begin, end, and are found in what was taken
// for training.
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/hook/evidence.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/names.h"
#include "engine/hook/pass.h"
#include "engine/hook/seen.h"
#include "engine/hook/spans.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

void open_look(Seen& seen, Here here, const Moment& now) {
  if (seen.look.is_open() || seen.levels(here.stack).validation) return;
  seen.look.scope = open_span(here, {.name = names().validation}, now);
  seen.look.spans = 0;
}

void close_look(Seen& seen, Here here, const Moment& now) {
  if (!seen.look.scope) return;
  if (seen.look.is_open()) {
    settle(seen);
    forget_forward(seen, seen.look.scope, now);
    close_around(here.thread, seen.look.scope, now);
  }
  seen.look.scope = {};
}

// Begins a look, with the leaves that are a part of it.
void begin_look(Seen& seen, Here here, bool with_leaves, const Moment& now) {
  open_look(seen, here, with_leaves ? Moment(seen.leaves.front()) : Moment(now));
  if (with_leaves && seen.look.is_open()) seen.leaves.move(0, seen.look.scope.sequence);
}

// This evaluation ends here: if the last model that had gradients ran in it, the next backward
// goes through something else.
void forget_forward(Seen& seen, const record::ScopeHandle& evaluation, const Moment& end) noexcept {
  const std::uint64_t start_ns = record::view_of(evaluation).start_ns();
  if (seen.learnt.graded_ns < start_ns || seen.learnt.graded_ns >= end.ns) return;
  seen.learnt.hinted = false;
  seen.learnt.owner = Owner::kAny;
}

// The leaves are certain to be in the look.
void settle_in_look(Seen& seen) noexcept {
  seen.look.spans += static_cast<std::uint32_t>(seen.leaves.size());
  settle(seen);
}

// The look is over: what runs from the leaf `first` on belongs to a step.
void leave_look(Seen& seen, Here here, const Moment& now, std::size_t first) {
  if (first >= seen.leaves.size()) return close_look(seen, here, now);
  Leaves rest = seen.leaves.split(first);
  const Moment start(rest.front());
  const bool only =
      seen.leaves.empty() && seen.look.spans == 0 && seen.others.untouched(here.thread);
  settle(seen);
  if (!only || !cancel(seen, seen.look.scope)) close_around(here.thread, seen.look.scope, start);
  seen.look.scope = {};
  seen.leaves = std::move(rest);
  seen.learnt.trains_in_eval = seen.learnt.trains_in_eval || seen.leaves.has_hinted();
  step_with_leaves(seen, here, start);
}

// An evaluation followed the end of the step: the step ends where the evaluation began.
void carve_look(Seen& seen, Here here) {
  if (seen.leaves.empty() || !seen.step.is_open_innermost()) return;
  const Moment start(seen.leaves.front());
  close_step(seen, here.thread, start);
  open_look(seen, here, start);
  if (seen.look.is_open()) seen.leaves.move(0, seen.look.scope.sequence);
}

// Nothing was trained in the step: it was a look, and so was the epoch that it began.
void turn_into_look(Seen& seen, Here here, bool fetched) {
  const std::size_t first = fetched ? seen.leaves.after_loads() : 0;
  if (first == seen.leaves.size()) return;
  const Moment start(seen.leaves[first]);
  const bool lonely = seen.began_epoch();
  Pass* pass = seen.step.pass();
  if (!seen.holds_only_leaves(here.thread) || !cancel_step(seen)) {
    if (fetched) return;
    record::relabel_scope(seen.step.handle(), names().validation, record::kNoIndex);
    seen.look.scope = seen.step.handle();
    return take_step_back(seen);
  }
  seen.passes.owed = pass;
  if (lonely) cancel(seen, seen.counted.scope);
  seen.leaves.move(0, record::current_parent(here.stack));
  open_look(seen, here, start);
  if (seen.look.is_open()) seen.leaves.move(first, seen.look.scope.sequence);
}

// The leaves were an evaluation, beside the step.
void write_look(Seen& seen, Here here, const Moment& start, const Moment& end) {
  const std::uint64_t sequence = record::take_sequence(here.thread);
  seen.leaves.move(0, sequence);
  settle(seen);
  record::write_span(here.thread, {.sequence = sequence,
                                   .parent = record::view_of(seen.step.handle()).parent(),
                                   .start_ns = start.ns,
                                   .end_ns = end.ns,
                                   .name = names().validation});
}

}  // namespace sonde::hook
