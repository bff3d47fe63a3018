// The scopes of passes over loaders begin and end.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/hook/judge.h"
#include "engine/hook/leaves.h"
#include "engine/hook/level.h"
#include "engine/hook/listeners.h"
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

void own(Seen& seen, Here here, Pass& pass, bool evaluates, const Moment& now) {
  pass.role = Pass::Role::kOwner;
  pass.evaluates = evaluates;
  pass.begun.first_check = pass.fetch.count + 1;
  Opening what{.name = names().validation};
  if (!evaluates)
    what = {.name = names().epoch, .index = seen.epochs.next, .flags = record::kHasIndex};
  pass.scope = open_span(here, what, now);
  seen.passes.owners.push_back(&pass);
}

// Training goes on while the iterators of validations live.
void pause_checks(Seen& seen, Here here, const Moment& now) {
  close_look(seen, here, now);
  while (Pass* check = seen.passes.checking()) {
    settle(seen);
    if (check->fetch.drained) {
      finish(seen, here.thread, *check, now);
      continue;
    }
    forget_forward(seen, check->scope, now);
    close_around(here.thread, check->scope, now);
    seen.passes.owners.pop_back();
    check->role = Pass::Role::kMember;
    check->nested = true;
  }
}

void forget(Seen& seen, Pass& pass) {
  seen.plain = false;
  seen.step.forget(pass);
  seen.passes.remove(pass);  // the last use
}

namespace {

// Rule 3: if the loop was left right after a fetch, the step that the fetch opened is taken back.
void drop_last_fetch(Seen& seen, ThreadState& thread, Pass& pass) {
  const Step& step = seen.step;
  const Leaves& leaves = seen.leaves;
  const bool only_fetches =
      !leaves.empty() && leaves.only_loads() && leaves.parent() == step.handle().sequence;
  if (!fetched_for_nothing({.pass = pass,
                            .scope_open = record::is_open(pass.scope),
                            .opened_step = step.pass() == &pass,
                            .step_innermost = step.is_open_innermost(),
                            .step_proven = step.proven(),
                            .step_certain = seen.parents.has(step.handle().sequence),
                            .only_fetches = only_fetches,
                            .untouched = seen.others.untouched(thread)}))
    return;
  if (cancel_step(seen)) seen.leaves.move(0, pass.scope.sequence);
}

// Ends what we have opened inside the scope of the pass.
void end_inside(Seen& seen, ThreadState& thread, const Pass& pass, const Moment& now) {
  if (!record::is_open(pass.scope)) return;
  const auto inside = [&](const record::ScopeHandle& scope) {
    return record::is_open(scope) && record::is_inside(scope, pass.scope);
  };
  if (inside(seen.look.scope)) {
    forget_forward(seen, seen.look.scope, now);
    close_span(thread, seen.look.scope, now);
  }
  if (pass.is_check()) forget_forward(seen, pass.scope, now);
  if (inside(seen.step.handle()) && !(seen.step.is_reopened_and_empty(thread) && cancel_step(seen)))
    close_step_around(seen, thread, now);
}

}  // namespace

void finish(Seen& seen, ThreadState& thread, Pass& pass, const Moment& now) {
  drop_last_fetch(seen, thread, pass);
  if (pass.role == Pass::Role::kOwner || seen.step.pass() == &pass) settle(seen);
  seen.passes.remember(pass);
  if (Pass* check = seen.passes.checking(); check != nullptr && check != &pass)
    check->relation.had_member = true;
  if (pass.role == Pass::Role::kMember && pass.trained) seen.passes.note_fed(pass);
  if (pass.role != Pass::Role::kOwner || !pass.scope) {
    // The pass opened the step, and nothing is open inside the step.
    if (seen.step.pass() == &pass && seen.step.is_open_innermost()) close_step(seen, thread, now);
    return forget(seen, pass);
  }
  end_inside(seen, thread, pass, now);
  carry_out(seen, {thread, *seen.stack}, verdict_on(judge_ending(pass)), now, &pass);
}

void drop_closed(Seen& seen, bool by_program) noexcept {
  CountedEpoch& counted = seen.counted;
  if (counted.scope && !counted.is_open()) {
    if (wraps_one_iteration(seen.step.next(), counted.parent == counted.full_parent))
      counted.short_depth = std::min(counted.short_depth, record::scopes_around(counted.scope));
    report_epoch(seen, counted.scope.sequence);
    counted.scope = {};
    seen.cycle.reset();
  }
  std::vector<Pass*> over;
  std::erase_if(seen.passes.owners, [&](Pass* pass) {
    if (record::is_open(pass->scope)) return false;
    if (pass->is_epoch()) {
      report_epoch(seen, pass->scope.sequence);
      seen.cycle.reset();
    }
    seen.plain = false;
    pass->role = Pass::Role::kMember;  // from now on the pass feeds whatever is open
    pass->relation.orphan = by_program;
    if (pass->fetch.drained) over.push_back(pass);
    return true;
  });
  for (Pass* pass : over) forget(seen, *pass);
}

void report_epoch(Seen& seen, std::uint64_t sequence) noexcept {
  const std::int64_t index = seen.epochs.next++;
  if (g_listeners.epoch_end != nullptr)
    g_listeners.epoch_end({*seen.stack, sequence, index, seen.last_step});
  seen.end_epoch();
}

}  // namespace sonde::hook
