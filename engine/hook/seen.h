// Everything that was seen on one stack, as plain data, and questions about it that change nothing.
// Moves (moves.h) change it.
#pragma once

#include <cstdint>

#include "engine/base/placement.h"
#include "engine/hook/cycle.h"
#include "engine/hook/evidence.h"
#include "engine/hook/last_step.h"
#include "engine/hook/leaves.h"
#include "engine/hook/level.h"
#include "engine/hook/moment.h"
#include "engine/hook/optimizers.h"
#include "engine/hook/others.h"
#include "engine/hook/parents.h"
#include "engine/hook/pass_list.h"
#include "engine/hook/step.h"
#include "engine/record/generation.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

struct OpenScope;  // judge.h

struct Seen {
  // Was all this seen in the session that is open?
  bool of_this_session() const noexcept { return generation == record::generation(); }
  // The same, and does this thread know of that session already?
  bool is_current(const record::ThreadState& thread) const noexcept {
    return generation == thread.generation && of_this_session();
  }
  // Does the stack still belong to the thread or task that all this was seen of?
  bool of_this_tenancy() const noexcept { return tenancy == record::tenancy_of(*stack); }
  // Is this step or epoch one that was opened here, and not the program's own?
  bool opened(std::uint64_t sequence) const noexcept;
  // Does a trainer, or the program, have a scope of that level open, or has it claimed the level?
  bool owned(const record::Lane& stack, Level level) const noexcept;

  // Gathers everything for judge.h, as of now.
  SONDE_APART Evidence evidence(Here here) const noexcept;
  Evidence evidence(Here here, const Forward& forward) const noexcept;
  // Which levels are not ours to open (rule 8). `claimed`: also those that trainers, and the
  // program's own loops, have said they open.
  SONDE_APART Levels levels(const record::Lane& stack, bool claimed = true) const noexcept;
  OpenScope describe(record::ScopeView scope) const noexcept;
  bool is_inside_scope(std::uint64_t parent, const Levels& levels,
                       const record::Lane& stack) const noexcept;
  bool stands_free(std::uint64_t parent) const noexcept;
  bool in_epoch(const record::Lane& stack) const noexcept;
  // Is anything open that a new pass can feed: an epoch, or the scope of another pass?
  bool in_pass_or_epoch(const Levels& taken) const noexcept {
    return taken.epoch || passes.innermost() != nullptr || counted.is_open();
  }
  // Is nothing in the step but leaves, which can be moved? Then the step can be taken back.
  bool holds_only_leaves(const record::ThreadState& thread) const noexcept {
    return others.untouched(thread) && !parents.has(step.handle().sequence);
  }
  SONDE_COLD bool holds_program(const record::ScopeHandle& scope) const noexcept;
  bool is_counted_full() const noexcept;
  bool began_epoch() const noexcept;
  bool trains_owned() const noexcept {
    return learnt.owner == Owner::kOptimizer || (learnt.owner == Owner::kAny && g_optimizers_known);
  }
  bool in_final() const noexcept {
    return epochs.final_batch || epochs.final_turn ||
           (counted.scope && step.next() >= g_steps_per_epoch);
  }
  // Is a span of the hooks under way that the next span would be a part of?
  bool nested() const noexcept { return optimizers.any() || record::is_open(running.scope); }

  // The epoch under way is over: the steps of the next one count from zero.
  void end_epoch() noexcept {
    last_step.end_epoch();
    epochs.final_batch = epochs.final_turn = false;
  }

  static bool g_optimizers_known;
  static std::int64_t g_steps_per_epoch;  // without a loader

  // What every event looks at comes first, in as few lines of the cache as it can.
  record::Lane* stack = nullptr;
  std::uint64_t tenancy = 0;
  record::Generation generation = 0;
  Others others;
  Claims claims;
  bool plain = false;  // the step is like the one before (plain.h)
  Running running;
  Learnt learnt;
  Step step;
  Epochs epochs;
  CountedEpoch counted;
  Leaves leaves;  // spans whose place is not certain yet
  Parents parents;
  Optimizers optimizers;
  Cycle cycle;
  Look look;
  Passes passes;
  LastStep last_step;
};

}  // namespace sonde::hook
