// A pass over a loader turns out to be something else than it was taken for.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/hook/evidence.h"
#include "engine/hook/judge.h"
#include "engine/hook/level.h"
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

using record::ThreadState;

// The fetch itself stays, and may be the first of what comes next.
bool drop_peek(Seen& seen, ThreadState& thread, Pass& pass) {
  const bool owner = pass.role == Pass::Role::kOwner;
  if (!seen.others.untouched(thread)) return false;
  if (pass.fetch.opened_step && seen.step.handle() && !cancel_step(seen)) return false;
  if (owner && !cancel(seen, pass.scope)) return false;
  if (owner || pass.fetch.opened_step) seen.leaves.move(0, record::current_parent(*seen.stack));
  forget(seen, pass);
  return true;
}

// Models ran on the batch, and no backward came: what the fetch opened is not a step.
void turn_into_check(Seen& seen, Here here, Pass& pass) {
  if (!seen.step.is_open_innermost()) return;
  if (seen.step.pass() != &pass) return turn_part_into_check(seen, here, pass);
  pass.evaluates = true;
  if (pass.role != Pass::Role::kOwner) {
    record::relabel_scope(seen.step.handle(), names().validation, record::kNoIndex);
    pass.scope = seen.step.handle();
    pass.role = Pass::Role::kOwner;
    pass.begun.first_check = pass.fetch.count;
    seen.passes.owners.push_back(&pass);
    return take_step_back(seen);
  }
  if (seen.holds_only_leaves(here.thread)) {
    seen.leaves.move(0, pass.scope.sequence);
    cancel_step(seen);
  } else {
    record::relabel_scope(seen.step.handle(), names().batch, seen.step.index());
    close_step(seen, here.thread, Moment());
    seen.step.give_number_back();
  }
  record::relabel_scope(pass.scope, names().validation, record::kNoIndex);
}

// The batch of this pass was fetched while another batch waits to be trained with.
void turn_part_into_check(Seen& seen, Here here, Pass& pass) {
  const std::size_t first = seen.leaves.find(pass.load_at);
  if (first == seen.leaves.size() || pass.role != Pass::Role::kMember) return;
  const Moment start(seen.leaves[first]);
  if (seen.holds_only_leaves(here.thread)) {
    Pass* waiting = seen.step.pass();
    cancel_step(seen);
    seen.passes.owed = waiting;
    seen.leaves.move(0, record::current_parent(here.stack));
  }
  own(seen, here, pass, true, start);
  pass.nested = true;
  pass.begun.first_check = pass.fetch.count;
  seen.leaves.move(first, pass.scope.sequence);
}

// The pass looked like a validation, and a backward shows that it trains: what has happened since
// the last fetch is a step.
void train_check(Seen& seen, Here here, Pass& pass, const Moment& now) {
  const bool since_fetch = !seen.leaves.empty() && seen.others.untouched(here.thread);
  const Moment start = since_fetch ? Moment(seen.leaves.front()) : Moment(now);
  pass.batches.no_hint = true;
  seen.learnt.trains_in_eval =
      seen.learnt.trains_in_eval || (seen.learnt.hinted && !pass.batches.sure);
  pass.evaluates = false;
  seen.passes.take_along(pass, true);
  if (!seen.in_epoch(here.stack)) pass.nested = false;
  if (!pass.nested) {
    record::relabel_scope(pass.scope, names().epoch, seen.epochs.next);
  } else {
    if (!since_fetch || !cancel(seen, pass.scope)) close_around(here.thread, pass.scope, start);
    pass.scope = {};
    std::erase(seen.passes.owners, &pass);
    pass.role = Pass::Role::kMember;
  }
  if (!since_fetch) settle(seen);
  const Levels taken = seen.levels(here.stack);
  if (!seen.step.is_open() && !taken.step &&
      !seen.is_inside_scope(record::current_parent(here.stack), taken, here.stack)) {
    open_step(seen, here, -1, start);
    seen.step.note_fetch(pass);
    pass.batches.steps = std::max<std::uint64_t>(pass.batches.steps, 1);
  }
  if (seen.step.is_open()) seen.leaves.move(0, seen.step.handle().sequence);
  promote(seen, here, pass);
  pass.trained = true;
}

// What runs from the leaf `first` on is training on something else.
void leave_check(Seen& seen, Here here, Pass& pass, std::size_t first, const Moment& now) {
  Leaves rest = seen.leaves.split(first);
  const Moment start = rest.empty() ? Moment(now) : Moment(rest.front());
  settle(seen);
  if (pass.fetch.drained) {
    finish(seen, here.thread, pass, start);
  } else {
    if (record::is_open(pass.scope)) forget_forward(seen, pass.scope, start);
    close_around(here.thread, pass.scope, start);
    std::erase(seen.passes.owners, &pass);
    pass.role = Pass::Role::kMember;
    pass.nested = true;
  }
  seen.leaves = std::move(rest);
  seen.learnt.trains_in_eval = seen.learnt.trains_in_eval || seen.leaves.has_hinted();
  if (!seen.leaves.empty()) step_with_leaves(seen, here, start);
}

// The open pass looked like a validation. Its batch was fetched with gradients on, and before
// anything is done with that batch another pass fetches: the batch waits to be trained with.
void keep_what_waits(Seen& seen, Here here, const Pass& next) {
  Pass* waiting = seen.passes.checking();
  if (waiting == nullptr || !waits_for_training(*waiting, next)) return;
  Pass& pass = *waiting;
  if (!pass.nested) {
    record::relabel_scope(pass.scope, names().epoch, seen.epochs.next);
  } else if (seen.others.untouched(here.thread) && cancel(seen, pass.scope)) {
    seen.leaves.move(0, record::current_parent(here.stack));
    std::erase(seen.passes.owners, &pass);
    pass.role = Pass::Role::kMember;
  } else {
    return;
  }
  pass.evaluates = false;
  seen.passes.take_along(pass, false);
  seen.passes.owed = &pass;
}

// The new epoch takes the place of the one around the step that the fetch of this pass has opened.
void promote(Seen& seen, Here here, Pass& pass) {
  if (seen.step.pass() != &pass || !can_promote(seen.evidence(here))) return;
  const Moment start = Moment::of(record::view_of(seen.step.handle()));
  if (Pass* outer = seen.passes.innermost()) {
    seen.passes.remember(*outer);
    pass.scope = outer->scope;
    report_epoch(seen, pass.scope.sequence);
    forget(seen, *outer);
  } else {
    pass.scope = std::exchange(seen.counted.scope, {});
    report_epoch(seen, pass.scope.sequence);
  }
  renew_span(here.thread, pass.scope, seen.epochs.next, start, start);
  pass.role = Pass::Role::kOwner;
  pass.nested = pass.relation.waits = pass.relation.supersedes = false;
  seen.passes.owners.push_back(&pass);
  for (Pass* member : seen.passes.known) {
    if (member->role != Pass::Role::kMember || member->begun.first_at < pass.begun.first_at)
      continue;
    member->relation.outer_scope = pass.scope.sequence;
    member->relation.outer_fetches = pass.fetch.count;
  }
  record::relabel_scope(seen.step.handle(), names().step, 0);
  seen.step.renumber(0);
  seen.step.count_anew(pass.scope.sequence, 1);
  seen.cycle.reset();
}

}  // namespace sonde::hook
