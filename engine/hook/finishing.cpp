// The scopes of passes over loaders begin and end.
#include <algorithm>
#include <vector>

#include "engine/hook/names.h"
#include "engine/hook/transitions.h"

namespace sonde::hook {

using record::ThreadState;

void Transitions::own(Here here, Pass& pass, bool evaluates, const Moment& now) {
  pass.role = Pass::Role::kOwner;
  pass.evaluates = evaluates;
  pass.first_check = pass.fetches + 1;
  Opening what{.name = names().validation};
  if (!evaluates) what = {.name = names().epoch, .index = epochs_.next, .flags = record::kHasIndex};
  pass.scope = open_span(here, what, now);
  passes_.owners.push_back(&pass);
}

// Training goes on while the iterators of validations live.
void Transitions::pause_checks(Here here, const Moment& now) {
  close_look(here, now);
  while (Pass* check = passes_.checking()) {
    settle();
    if (check->drained) {
      finish(here.thread, *check, now);
      continue;
    }
    forget_forward(check->scope, now);
    close_around(here.thread, check->scope, now);
    passes_.owners.pop_back();
    check->role = Pass::Role::kMember;
    check->nested = true;
  }
}

void Transitions::forget(Pass& pass) {
  plain_ = false;
  step_.forget(pass);
  passes_.remove(pass);  // the last use
}

// Rule 3: the loop was left right behind a fetch. That has opened a step, which is none.
void Transitions::drop_last_fetch(ThreadState& thread, Pass& pass) {
  const bool fetched = step_.pass == &pass && pass.ever_used && !pass.evaluates && !step_.proven &&
                       pass.role == Pass::Role::kOwner && record::is_open(pass.scope);
  if (!fetched || !step_.is_open_innermost() || parents_.has(step_.scope.sequence)) return;
  if (leaves_.empty() || !leaves_.only_loads() || leaves_.parent() != step_.scope.sequence) return;
  if (others_.untouched(thread) && cancel_step()) leaves_.move(0, pass.scope.sequence);
}

void Transitions::finish(ThreadState& thread, Pass& pass, const Moment& now) {
  drop_last_fetch(thread, pass);
  if (pass.role == Pass::Role::kOwner || step_.pass == &pass) settle();
  passes_.remember(pass);
  if (Pass* check = passes_.checking(); check != nullptr && check != &pass)
    check->had_member = true;
  if (pass.role == Pass::Role::kMember && pass.trained) passes_.note_fed(pass);
  if (pass.role != Pass::Role::kOwner || !pass.scope) {
    // The step that it opened, and nothing was built upon.
    if (step_.pass == &pass && step_.is_open_innermost()) close_step(thread, now);
    return forget(pass);
  }
  end_inside(thread, pass, now);
  switch (judge_ending(pass)) {
    case Ending::kPeek:
      record::relabel_scope(pass.scope, names().peek, record::kNoIndex);
      break;
    case Ending::kEpoch:
      report_epoch(pass.scope.sequence);
      cycle_.reset();
      for (Pass* member : passes_.known) member->parted = member->role == Pass::Role::kMember;
      break;
    case Ending::kOther:
      break;
  }
  close_scope_of(thread, pass, now);
  forget(pass);
  drop_closed(false);
}

// What is open in its scope, and is ours.
void Transitions::end_inside(ThreadState& thread, const Pass& pass, const Moment& now) {
  if (!record::is_open(pass.scope)) return;
  const auto inside = [&](const record::ScopeHandle& scope) {
    return record::is_open(scope) && scope.stack == pass.scope.stack &&
           scope.slot > pass.scope.slot;
  };
  if (inside(look_.scope)) {
    forget_forward(look_.scope, now);
    close_span(thread, look_.scope, now);
  }
  if (pass.evaluates && !pass.trained) forget_forward(pass.scope, now);
  if (inside(step_.scope) && !(step_.is_empty(thread) && cancel_step()))
    close_step_around(thread, now);
}

void Transitions::close_scope_of(ThreadState& thread, Pass& pass, const Moment& now) {
  // A validation of nothing is none: its last sequence was the fetch that gave no batch.
  const bool empty = pass.evaluates && !pass.trained && record::is_open(pass.scope) &&
                     record::is_innermost(pass.scope) &&
                     record::next_sequence(thread) == pass.scope.sequence + 2;
  if (empty && cancel(pass.scope)) return;
  if (holds_program(pass.scope)) {
    close_around(thread, pass.scope, now);
  } else {
    close_span(thread, pass.scope, now);
  }
}

// What we had opened inside of another scope was closed with it. `by_program`: that was none of
// ours.
void Transitions::drop_closed(bool by_program) noexcept {
  if (counted_.scope && !counted_.is_open()) {
    // Around every single iteration, that is no epoch.
    if (step_.next <= 1 && counted_.parent != counted_.full_parent)
      counted_.short_depth = std::min(counted_.short_depth, counted_.scope.slot);
    report_epoch(counted_.scope.sequence);
    counted_.scope = {};
    cycle_.reset();
  }
  std::vector<Pass*> over;
  std::erase_if(passes_.owners, [&](Pass* pass) {
    if (record::is_open(pass->scope)) return false;
    if (pass->is_epoch()) {
      report_epoch(pass->scope.sequence);
      cycle_.reset();
    }
    plain_ = false;
    pass->role = Pass::Role::kMember;  // from now on it feeds whatever is there
    pass->orphan = by_program;
    if (pass->drained) over.push_back(pass);
    return true;
  });
  for (Pass* pass : over) forget(*pass);
}

}  // namespace sonde::hook
