// The levels of the tree on one stack: epochs, steps and validations, and whose they are (rule 8).
#pragma once

#include <cstdint>

#include "engine/record/scope.h"

namespace sonde::hook {

// The innermost open scope of this name (a batch is a step), as its sequence; 0: none is open here.
std::uint64_t open_level(const record::Lane& stack, std::uint32_t name) noexcept;

// Does a scope on this stack announce its epochs, steps and validations itself?
bool epochs_announced(const record::Lane& stack) noexcept;

enum class Level : std::uint8_t { kEpoch, kStep, kValidation };

// Which levels of the tree are not ours to open (rule 8), and the innermost epoch, ours or not.
struct Levels {
  bool epoch = false, step = false, validation = false;
  std::uint64_t innermost_epoch = 0;  // the sequence of its scope; 0: there is none
};

// What trainers, and the program's own loops over batches, have said they open themselves, as
// counts of calls that nest. Small, because every event looks at what comes after it in Seen.
struct Claims {
  std::int16_t announced = 0;  // everything: nothing is inferred
  std::int16_t steps = 0;      // the steps
  std::int16_t trainers = 0;   // the epochs, and so the steps outside an epoch
  // A thread that only fetches, for a trainer that runs on another one: nothing is inferred here,
  // either, until a model or an optimizer runs.
  bool fetches_for_trainer = false;

  bool everything() const noexcept { return announced > 0 || fetches_for_trainer; }
};

// An epoch without a loader: a fixed number of steps (rule 5).
struct CountedEpoch {
  bool is_open() const noexcept { return record::is_open(scope); }

  record::ScopeHandle scope;
  std::uint64_t parent = 0;       // sequence of the scope that the epoch is in
  std::uint64_t full_parent = 0;  // sequence of the scope that the last full epoch was in
  // A scope of the program around a single iteration has closed a counted epoch at this depth: no
  // other is opened that deep.
  std::uint32_t short_depth = ~0u;
};

// A validation without a loader.
struct Look {
  bool is_open() const noexcept { return record::is_open(scope); }

  record::ScopeHandle scope;
  std::uint32_t spans = 0;  // how many are certain to be in it
};

// The epochs that were counted, and whether the one under way is at its end.
struct Epochs {
  std::int64_t next = 0;     // the number of the next one
  bool final_batch = false;  // the pass that makes the epoch has fetched its last batch
  bool final_turn = false;   // the program's own loop over batches is in its last turn
};

}  // namespace sonde::hook
