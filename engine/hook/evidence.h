// What was seen of a training loop, as plain values: what the functions of judge.h are given.
#pragma once

#include <cstdint>

#include "engine/hook/cycle.h"
#include "engine/hook/leaves.h"
#include "engine/hook/pass.h"
#include "engine/record/scope.h"

namespace sonde::hook {

// Does an optimizer own parameters of this module? Unknown: no optimizer is known yet.
enum class Owned : std::uint8_t { kUnknown, kYes, kNo };

// What is known of a call of a module when it begins.
struct Forward {
  bool gradients = true;  // are they on?
  bool training = true;   // the module's own flag, which is a hint
  Owned owned = Owned::kUnknown;
  std::uint32_t attrs = 0;       // interned; 0: the mode alone
  const void* module = nullptr;  // only compared
};

// What a forward looks like by itself.
struct Reading {
  bool evaluates = false;  // it looks like a part of an evaluation
  bool sure = false;       // the same, because gradients are off
  bool foreign = false;    // gradients are off, and no optimizer trains its module
};

// The forward or backward under way.
struct Running {
  record::ScopeHandle scope;
  const void* module = nullptr;  // of a forward
  std::uint64_t ended_ns = 0;    // when the last span but an optimizer's ended
  Reading reading;
  bool pend = false;    // it is not certain of its place
  bool watch = false;   // it is one of several forwards, of which a backward may use one
  bool decide = false;  // the end of the backward under way tells which
};

// Does an optimizer have what the next backward trains, which is the last model that ran with
// gradients? kAny: no model ran (parameters are used without a module), so any optimizer counts.
enum class Owner : std::uint8_t { kAny, kNone, kOptimizer };

// How this program trains, as far as it has shown.
struct Learnt {
  bool trains_in_eval = false;      // models in evaluation mode are trained here
  bool knows_training = false;      // there was a backward or an optimizer step
  bool hinted = false;              // the last model that ran with gradients looked like evaluation
  bool bare = false;                // nothing is trained with what models return
  bool steps_by_optimizer = false;  // an optimizer has stepped
  Owner owner = Owner::kAny;
  // When the last forward with gradients began, not counting those of plain steps.
  std::uint64_t graded_ns = 0;
};

// Which levels of the tree are not ours to open (rule 8), and the innermost epoch, ours or not.
struct Levels {
  bool epoch = false, step = false, validation = false;
  std::uint64_t innermost_epoch = 0;  // its sequence; 0: none
};

// Everything that is known at the moment when a forward, a backward or an optimizer step begins, or
// when a stretch of them ends. A pointer to a pass is null where there is no such pass.
struct Evidence {
  const Leaves& leaves;  // spans that may still be moved
  const Cycle& cycle;    // the optimizer steps of this iteration

  // The forward that begins.
  bool gradients = false;  // on
  bool training = false;   // the module's own flag
  bool owned = false;      // by an optimizer, for certain
  Reading reading = {};

  // Passes over loaders.
  const PassEvidence* check = nullptr;    // its validation is open, and the innermost scope of ours
  const PassEvidence* leader = nullptr;   // its batches are trained with
  const PassEvidence* last = nullptr;     // it fetched last
  const PassEvidence* fetched = nullptr;  // its fetch opened the step
  const PassEvidence* owed = nullptr;     // its batch waits for its step
  const PassEvidence* outer = nullptr;    // the innermost that has a scope
  bool outer_trains = false;              // so does the one that has the scope around that
  bool loader_trained = false;            // the loader of `fetched` was trained with before

  // The step.
  bool step_open = false;
  bool step_innermost = false;   // nothing is open inside it
  bool done = false;             // it has had its optimizer step
  bool proven = false;           // it has had a backward or an optimizer step
  bool scope_begun = false;      // the program has opened a scope since it was done
  bool step_in_outer = false;    // it lies directly inside the scope of `outer`
  bool step_in_counted = false;  // it lies directly inside an open epoch without a loader

  // The levels around it.
  bool look_open = false;     // a validation without a loader
  bool counted_open = false;  // an epoch without a loader
  Levels taken = {};
  bool inside_scope = false;  // the innermost scope is the program's, and no epoch
  bool stands_free = false;   // the next leaf would lie directly below what we have opened
  std::uint64_t parent = 0;   // sequence of the innermost scope

  // What the program did in the meantime.
  bool untouched = false;    // nothing was recorded between the leaves
  bool none_opened = false;  // no scope was opened behind them

  // What is learnt.
  bool knows_training = false;
  bool trains_in_eval = false;
  bool bare = false;
  bool trains_owned = false;  // an optimizer has what the next backward trains
};

}  // namespace sonde::hook
