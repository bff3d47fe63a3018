// What was seen of a training loop, as plain values. The functions of judge.h are given these.
#pragma once

#include <cstdint>

#include "engine/hook/cycle.h"
#include "engine/hook/leaves.h"
#include "engine/hook/level.h"
#include "engine/hook/pass.h"
#include "engine/record/scope.h"

namespace sonde::hook {

// Does an optimizer own parameters of this module? Unknown: no optimizer is known yet.
enum class Owned : std::uint8_t { kUnknown, kYes, kNo };

// What is known of a call of a module when it begins.
struct Forward {
  bool gradients = true;  // are gradients on?
  bool training = true;   // the module's own flag, which is a hint
  Owned owned = Owned::kUnknown;
  std::uint32_t attrs = 0;       // of the span, interned; 0: the mode alone
  const void* module = nullptr;  // only compared
};

// What a forward looks like, whatever is around it.
struct Reading {
  bool evaluates = false;  // the forward looks like a part of an evaluation
  bool sure = false;       // the forward certainly is a part of one: gradients are off
  bool foreign = false;    // gradients are off, and no optimizer trains its module
};

// The span under way: a fetch, a forward or a backward.
struct Running {
  record::ScopeHandle scope;     // of a forward or a backward
  const void* module = nullptr;  // of a forward
  std::uint64_t ended_ns = 0;    // when the last such span ended
  Reading reading;
  bool pend = false;    // the span is provisional: where it belongs is not certain yet
  bool watch = false;   // ask autograd whether a backward goes through this forward
  bool decide = false;  // when this backward ends, autograd has told which forwards it went through
};

// Does an optimizer own what the next backward trains? That is the last model that ran with
// gradients. kAny: no model ran (parameters are used without a module), so any optimizer counts.
enum class Owner : std::uint8_t { kAny, kNone, kOptimizer };

// How this program trains, as far as it has shown.
struct Learnt {
  bool trains_in_eval = false;      // models in evaluation mode are trained here
  bool knows_training = false;      // there was a backward or an optimizer step
  bool hinted = false;              // the last model that ran with gradients looked like evaluation
  bool bare = false;                // the last backward went through no model that had run
  bool steps_by_optimizer = false;  // an optimizer has stepped
  Owner owner = Owner::kAny;
  // When the last forward with gradients began, not counting those of plain steps.
  std::uint64_t graded_ns = 0;
};

// Everything that is known at the moment when a forward, a backward or an optimizer step begins, or
// when a stretch of them ends. A pointer to a pass is null where there is no such pass.
struct Evidence {
  const Leaves& leaves;  // spans that may still be moved
  const Cycle& cycle;    // the optimizer steps of this iteration

  // The forward that begins.
  bool gradients = false;  // are gradients on?
  bool training = false;   // the module's own flag
  bool owned = false;      // an optimizer certainly owns parameters of its module
  Reading reading = {};

  // Passes over loaders.
  const PassEvidence* check = nullptr;    // the pass whose validation is our innermost scope
  const PassEvidence* leader = nullptr;   // the pass whose batches are trained with
  const PassEvidence* last = nullptr;     // the pass that fetched last
  const PassEvidence* fetched = nullptr;  // the pass whose fetch opened the step
  const PassEvidence* owed = nullptr;     // the pass with a batch that waits for its step
  const PassEvidence* outer = nullptr;    // the innermost pass that has a scope
  bool outer_trains = false;    // the pass whose scope is around that of `outer` is trained with
  bool loader_trained = false;  // the loader of `fetched` was trained with before

  // The step.
  bool step_open = false;
  bool step_innermost = false;   // the step is open, and nothing is open inside it
  bool done = false;             // the step has had its optimizer step
  bool proven = false;           // the step has had a backward or an optimizer step
  bool scope_begun = false;      // the program has opened a scope since the step was done
  bool step_in_outer = false;    // the step lies directly inside the scope of `outer`
  bool step_in_counted = false;  // the step lies directly inside an epoch without a loader

  // The levels around the step.
  bool look_open = false;     // a validation without a loader
  bool counted_open = false;  // an epoch without a loader
  Levels taken = {};
  bool inside_scope = false;  // the innermost scope is the program's, and is not an epoch
  bool stands_free = false;   // no scope of the program lies between the next leaf and our scopes
  std::uint64_t parent = 0;   // sequence of the innermost scope

  // What the program did in the meantime.
  bool untouched = false;    // nothing else was recorded between the leaves or after them
  bool none_opened = false;  // no scope was opened since the last event of the hooks

  // What is learnt.
  bool knows_training = false;
  bool trains_in_eval = false;
  bool bare = false;
  bool trains_owned = false;  // an optimizer owns what the next backward trains
};

}  // namespace sonde::hook
