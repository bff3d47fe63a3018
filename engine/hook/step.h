// The step under way: its scope, its number, and what has happened in it.
#pragma once

#include <cstdint>

#include "engine/hook/pass.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

struct Step {
  bool is_open() const noexcept { return record::is_open(scope); }
  bool is_open_innermost() const noexcept { return is_open() && record::is_innermost(scope); }
  // Is the step open, and has it not had its optimizer step yet?
  bool goes_on() const noexcept { return is_open() && !done; }
  bool is_on(const record::Lane& stack) const noexcept { return scope.stack == &stack; }

  // Starts the next step in this scope.
  void begin(std::int64_t number, const record::ScopeHandle& opened) noexcept {
    earlier_index = index;
    index = number;
    ++next;
    scope = opened;
    pass = owed = nullptr;
    earlier_done = done;
    done = proven = reopened = false;
  }
  // Takes the step back: its number is free again. If it was on batches that were left (left_of),
  // these count as left again.
  void take_back() noexcept {
    scope = {};
    --next;
    index = earlier_index;
    done = earlier_done;
    if (left_of != nullptr) left_of->fetch.left += left_of->batches.per_step;
    left_of = nullptr;
  }
  // Starts the next step in the place of the old one, around a scope that the program has opened.
  void replace() noexcept {
    earlier_index = index;
    index = next++;
    pass = nullptr;
    done = proven = false;
  }
  // Steps are numbered within the innermost scope that is an epoch. `sequence`: of that scope; 0:
  // there is none.
  void count_in(std::uint64_t sequence) noexcept {
    if (sequence == epoch) return;
    epoch = sequence;
    next = 0;
  }
  // Has the program opened a scope since the step had its optimizer step?
  bool ends_below_scope() const noexcept {
    return is_open() && done && !record::is_innermost(scope) &&
           record::above(scope).start_ns() >= done_ns;
  }
  // Has the step been reopened after a validation, with nothing recorded in it since?
  bool is_empty(const record::ThreadState& thread) const noexcept {
    return reopened && is_open() && record::next_sequence(thread) == scope.sequence + 1;
  }
  void forget(const Pass& gone) noexcept {
    if (pass == &gone) pass = nullptr;
    if (owed == &gone) owed = nullptr;
    if (left_of == &gone) left_of = nullptr;
  }

  record::ScopeHandle scope;
  Pass* pass = nullptr;       // the pass whose fetch opened the step
  std::uint64_t done_ns = 0;  // when an optimizer last stepped
  bool done = false;          // the step has had its optimizer step
  bool earlier_done = false;  // the step before it had had its optimizer step
  bool proven = false;        // the step has had a backward or an optimizer step
  bool reopened = false;      // the step was taken back for a validation and began again after it
  std::int64_t next = 0;      // the number of the next step
  std::int64_t index = -1;    // the number of this step, or of the last one; -1: there was none
  std::int64_t earlier_index = -1;  // the number of the step before it
  Pass* owed = nullptr;     // the pass whose batch waits for its step while there is a validation
  Pass* left_of = nullptr;  // the exhausted pass that the step's batches were left of
  std::uint64_t epoch = 0;  // sequence of the epoch-level scope that the step's number counts in
};

}  // namespace sonde::hook
