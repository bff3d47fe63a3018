#include "engine/hook/seen.h"

#include "engine/hook/names.h"
#include "engine/record/stack.h"

namespace sonde::hook {

using record::Lane;
using record::ScopeHandle;
using record::ScopeView;

SONDE_HOT_DATA bool Seen::g_optimizers_known = false;

Evidence Seen::evidence(Here here) const noexcept {
  const Levels taken = levels(here.stack);
  const std::uint64_t parent = record::current_parent(here.stack);
  const std::size_t owners = passes_.owners.size();
  const Pass* fetched = step_.pass;
  const bool open = step_.is_open();
  return {.leaves = leaves_,
          .cycle = cycle_,
          .check = passes_.checking(),
          .leader = passes_.leader(),
          .last = passes_.last,
          .fetched = fetched,
          .owed = step_.owed,
          .outer = passes_.innermost(),
          .outer_trains = owners > 1 && passes_.owners[owners - 2]->trained,
          .loader_trained =
              fetched != nullptr && !fetched->trained && passes_.trained_before(fetched->source),
          .step_open = open,
          .step_innermost = open && record::is_innermost(step_.scope),
          .done = step_.done,
          .proven = step_.proven,
          .scope_begun = step_.ends_below_scope(),
          .step_slot = step_.scope.slot,
          .look_open = look_.is_open(),
          .counted_open = counted_.is_open(),
          .counted_slot = counted_.scope.slot,
          .taken = taken,
          .inside_scope = is_inside_scope(parent, taken, here.stack),
          .stands_free = stands_free(parent),
          .parent = parent,
          .untouched = others_.untouched(here.thread),
          .none_opened = !others_.opened(here.thread),
          .knows_training = learnt_.knows_training,
          .trains_in_eval = learnt_.trains_in_eval,
          .bare = learnt_.bare,
          .trains_owned = trains_owned()};
}

Evidence Seen::evidence(Here here, const Forward& forward) const noexcept {
  Evidence seen = evidence(here);
  seen.gradients = forward.gradients;
  seen.training = forward.training;
  seen.owned = forward.owned == Owned::kYes;
  seen.reading = running_.reading;
  return seen;
}

// Rule 8.
Levels Seen::levels(const Lane& stack, bool claimed) const noexcept {
  const Names& name = names();
  Levels found;
  for (std::uint32_t slot = record::depth_of(stack); slot-- > 0;) {
    const ScopeView scope = record::scope_at(stack, slot);
    if (scope.is_closed()) continue;
    const std::uint8_t flags = scope.flags();
    found.epoch = found.epoch || (flags & record::kOwnsEpochs) != 0;
    found.step = found.step || (flags & record::kOwnsSteps) != 0;
    found.validation = found.validation || (flags & record::kOwnsValidation) != 0;
    const std::uint32_t called = scope.name();
    if (called == name.epoch) {
      found.epoch = found.epoch || !opened(scope.sequence());
      if (found.innermost_epoch == 0) found.innermost_epoch = scope.sequence();
    } else if (called == name.step || called == name.batch) {
      found.step = found.step || scope.sequence() != step_.scope.sequence;
    } else if (called == name.validation) {
      found.validation = found.validation || scope.sequence() != look_.scope.sequence;
    }
  }
  if (!claimed) return found;
  const bool announced = claims_.announced > 0, trainer = claims_.trainers > 0;
  found.epoch = found.epoch || announced || trainer;
  found.step =
      found.step || announced || claims_.steps > 0 || (trainer && found.innermost_epoch == 0);
  found.validation = found.validation || announced;
  return found;
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
  return sequence == step_.scope.sequence || sequence == counted_.scope.sequence ||
         passes_.owns(sequence);
}

// Is the innermost scope one of the program's, and no epoch?
bool Seen::is_inside_scope(std::uint64_t parent, const Levels& levels,
                           const Lane& stack) const noexcept {
  return record::depth_of(stack) > 0 && parent != levels.innermost_epoch && !passes_.owns(parent);
}

// Directly below what we have opened, or below nothing of ours: then a leaf may be moved.
bool Seen::stands_free(std::uint64_t parent) const noexcept {
  const bool step = step_.is_open(), look = look_.is_open();
  if (step && parent == step_.scope.sequence) return true;
  if (look && parent == look_.scope.sequence) return true;
  if (const Pass* pass = passes_.innermost()) return parent == pass->scope.sequence;
  if (step || look) return false;
  return leaves_.empty() || parent == leaves_.parent();
}

bool Seen::in_epoch(const Lane& stack) const noexcept {
  const Levels found = levels(stack);
  return found.innermost_epoch != 0 || found.epoch;
}

// Is a scope of the program's open inside, directly?
bool Seen::holds_program(const ScopeHandle& scope) const noexcept {
  const ScopeView inside = record::is_open(scope) ? record::first_inside(scope) : ScopeView();
  if (!inside) return false;
  const std::uint64_t next = inside.sequence();
  if (opened(next) || next == look_.scope.sequence || next == running_.scope.sequence) return false;
  return !optimizers_.has_scope(next) && !passes_.is_fetching(next);
}

bool Seen::is_counted_full() const noexcept {
  return counted_.is_open() && step_.epoch == counted_.scope.sequence &&
         step_.next >= g_steps_per_epoch;
}

// The step is the first of an epoch without a loader.
bool Seen::began_epoch() const noexcept {
  return step_.next == 1 && counted_.is_open() && step_.epoch == counted_.scope.sequence;
}

}  // namespace sonde::hook
