#include "engine/hook/seen.h"

#include <cstddef>
#include <cstdint>

#include "engine/base/placement.h"
#include "engine/hook/evidence.h"
#include "engine/hook/judge.h"
#include "engine/hook/level.h"
#include "engine/hook/moment.h"
#include "engine/hook/names.h"
#include "engine/hook/pass.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

using record::Lane;
using record::ScopeHandle;
using record::ScopeView;

SONDE_HOT_DATA bool Seen::g_optimizers_known = false;

Evidence Seen::evidence(Here here) const noexcept {
  const Levels taken = levels(here.stack);
  const std::uint64_t parent = record::current_parent(here.stack);
  const std::size_t owners = passes.owners.size();
  const Pass* fetched = step.pass();
  const Pass* outer = passes.innermost();
  const bool open = step.is_open();
  const auto lies_in = [&](const ScopeHandle& scope) {
    return open && record::is_directly_inside(step.handle(), scope);
  };
  return {.leaves = leaves,
          .cycle = cycle,
          .check = passes.checking(),
          .leader = passes.leader(),
          .last = passes.last,
          .fetched = fetched,
          .owed = passes.owed,
          .outer = outer,
          .outer_trains = owners > 1 && passes.owners[owners - 2]->trained,
          .loader_trained =
              fetched != nullptr && !fetched->trained && passes.trained_before(fetched->source),
          .step_open = open,
          .step_innermost = open && record::is_innermost(step.handle()),
          .done = step.done(),
          .proven = step.proven(),
          .scope_begun = step.ends_below_scope(),
          .step_in_outer = outer != nullptr && lies_in(outer->scope),
          .step_in_counted = counted.is_open() && lies_in(counted.scope),
          .look_open = look.is_open(),
          .counted_open = counted.is_open(),
          .taken = taken,
          .inside_scope = is_inside_scope(parent, taken, here.stack),
          .stands_free = stands_free(parent),
          .parent = parent,
          .untouched = others.untouched(here.thread),
          .none_opened = !others.opened(here.thread),
          .knows_training = learnt.knows_training,
          .trains_in_eval = learnt.trains_in_eval,
          .bare = learnt.bare,
          .trains_owned = trains_owned()};
}

Evidence Seen::evidence(Here here, const Forward& forward) const noexcept {
  Evidence seen = evidence(here);
  seen.gradients = forward.gradients;
  seen.training = forward.training;
  seen.owned = forward.owned == Owned::kYes;
  seen.reading = running.reading;
  return seen;
}

OpenScope Seen::describe(ScopeView scope) const noexcept {
  const Names& name = names();
  const std::uint8_t flags = scope.flags();
  OpenScope open{.owns_epochs = (flags & record::kOwnsEpochs) != 0,
                 .owns_steps = (flags & record::kOwnsSteps) != 0,
                 .owns_validation = (flags & record::kOwnsValidation) != 0,
                 .named = true,
                 .sequence = scope.sequence()};
  const std::uint32_t called = scope.name();
  if (called == name.epoch) {
    open.level = Level::kEpoch;
    open.ours = opened(open.sequence);
  } else if (called == name.step || called == name.batch) {
    open.level = Level::kStep;
    open.ours = open.sequence == step.handle().sequence;
  } else if (called == name.validation) {
    open.level = Level::kValidation;
    open.ours = open.sequence == look.scope.sequence;
  } else {
    open.named = false;
  }
  return open;
}

Levels Seen::levels(const Lane& stack, bool claimed) const noexcept {
  Levels found;
  record::see_scopes(stack, [&](ScopeView scope) { add_open(found, describe(scope)); });
  return claimed ? add_claims(found, claims) : found;
}

bool Seen::owned(const Lane& stack, Level level) const noexcept {
  const Levels found = levels(stack, false);
  switch (level) {
    case Level::kEpoch:
      return found.epoch;
    case Level::kStep:
      return found.step;
    case Level::kValidation:
      return found.validation;
  }
  return false;
}

bool Seen::opened(std::uint64_t sequence) const noexcept {
  return sequence == step.handle().sequence || sequence == counted.scope.sequence ||
         passes.owns(sequence);
}

// Is the innermost scope one of the program's that is not an epoch?
bool Seen::is_inside_scope(std::uint64_t parent, const Levels& levels,
                           const Lane& stack) const noexcept {
  return record::depth_of(stack) > 0 && parent != levels.innermost_epoch && !passes.owns(parent);
}

// Would a leaf lie directly below a scope of ours, or below none of ours? Then it can be moved.
bool Seen::stands_free(std::uint64_t parent) const noexcept {
  const bool in_step = step.is_open(), in_look = look.is_open();
  if (in_step && parent == step.handle().sequence) return true;
  if (in_look && parent == look.scope.sequence) return true;
  if (const Pass* pass = passes.innermost()) return parent == pass->scope.sequence;
  if (in_step || in_look) return false;
  return leaves.empty() || parent == leaves.parent();
}

bool Seen::in_epoch(const Lane& stack) const noexcept {
  const Levels found = levels(stack);
  return found.innermost_epoch != 0 || found.epoch;
}

// Is the first scope that is open inside this one the program's?
bool Seen::holds_program(const ScopeHandle& scope) const noexcept {
  const ScopeView inside = record::is_open(scope) ? record::first_inside(scope) : ScopeView();
  if (!inside) return false;
  const std::uint64_t next = inside.sequence();
  if (opened(next) || next == look.scope.sequence || next == running.scope.sequence) return false;
  return !optimizers.has_scope(next) && !passes.is_fetching(next);
}

bool Seen::is_counted_full() const noexcept {
  return counted.is_open() && step.epoch() == counted.scope.sequence &&
         step.next() >= g_steps_per_epoch;
}

// Is the step the first of an epoch without a loader?
bool Seen::began_epoch() const noexcept {
  return step.next() == 1 && counted.is_open() && step.epoch() == counted.scope.sequence;
}

}  // namespace sonde::hook
