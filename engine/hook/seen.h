// Everything that was seen on one stack and follows from it, and questions about it that change
// nothing.
#pragma once

#include <cstdint>

#include "engine/base/placement.h"
#include "engine/hook/cycle.h"
#include "engine/hook/evidence.h"
#include "engine/hook/last_step.h"
#include "engine/hook/leaves.h"
#include "engine/hook/level.h"
#include "engine/hook/optimizers.h"
#include "engine/hook/others.h"
#include "engine/hook/parents.h"
#include "engine/hook/passes.h"
#include "engine/hook/step.h"

namespace sonde::hook {

class Seen {
 public:
  // Is this step or epoch one that was opened here, and not the program's own?
  bool opened(std::uint64_t sequence) const noexcept;
  // Has a trainer, or the program, a scope of that level open, or claimed it?
  bool owned(const record::Lane& stack, Level level) const noexcept;

 protected:
  // Gathers all of it for judge.h, as of now.
  SONDE_APART Evidence evidence(Here here) const noexcept;
  Evidence evidence(Here here, const Forward& forward) const noexcept;
  // Rule 8. `claimed`: also what trainers and ci.batches have said that they open themselves.
  SONDE_APART Levels levels(const record::Lane& stack, bool claimed = true) const noexcept;
  bool is_inside_scope(std::uint64_t parent, const Levels& levels,
                       const record::Lane& stack) const noexcept;
  bool stands_free(std::uint64_t parent) const noexcept;
  bool in_epoch(const record::Lane& stack) const noexcept;
  SONDE_COLD bool holds_program(const record::ScopeHandle& scope) const noexcept;
  bool is_counted_full() const noexcept;
  bool began_epoch() const noexcept;
  bool trains_owned() const noexcept {
    return learnt_.owner == Owner::kOptimizer ||
           (learnt_.owner == Owner::kAny && g_optimizers_known);
  }
  bool in_final() const noexcept {
    return epochs_.final_batch || epochs_.final_turn ||
           (counted_.scope && step_.next >= g_steps_per_epoch);
  }
  // Is something of the hooks under way that the next one would be a part of?
  bool nested() const noexcept { return optimizers_.any() || record::is_open(running_.scope); }

  static bool g_optimizers_known;
  static std::int64_t g_steps_per_epoch;  // without a loader

  // What every event looks at comes first, in as few lines of the cache as it can.
  record::Lane* stack_ = nullptr;
  std::uint64_t tenancy_ = 0;
  record::Generation generation_ = 0;
  Others others_;
  Claims claims_;
  bool plain_ = false;  // the step is like the one before (plain.h)
  Running running_;
  Learnt learnt_;
  Step step_;
  Epochs epochs_;
  CountedEpoch counted_;
  Leaves leaves_;  // spans that are not certain of their place
  Parents parents_;
  Optimizers optimizers_;
  Cycle cycle_;
  Look look_;
  Passes passes_;
  LastStep last_step_;
};

}  // namespace sonde::hook
