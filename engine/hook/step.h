// The step under way: its scope, its number, and what has happened in it.
//
// judge.h explains the words pass, look, owed and left.
#pragma once

#include <cstdint>

#include "engine/hook/pass.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

class Step {
 public:
  // -- what is known of it --

  bool is_open() const noexcept { return record::is_open(scope_); }
  bool is_open_innermost() const noexcept { return is_open() && record::is_innermost(scope_); }
  // Is the step open, and has it not had its optimizer step yet?
  bool goes_on() const noexcept { return is_open() && !done_; }
  bool is_on(const record::Lane& stack) const noexcept { return scope_.stack == &stack; }
  // Has the program opened a scope since the step had its optimizer step?
  bool ends_below_scope() const noexcept {
    return is_open() && done_ && !record::is_innermost(scope_) &&
           record::above(scope_).start_ns() >= done_ns_;
  }
  // Was the step reopened after a validation, and has nothing been recorded in it since?
  bool is_reopened_and_empty(const record::ThreadState& thread) const noexcept {
    return reopened_ && is_open() && record::next_sequence(thread) == scope_.sequence + 1;
  }
  const record::ScopeHandle& handle() const noexcept { return scope_; }
  // The same, for functions that close or renew the scope.
  record::ScopeHandle& handle() noexcept { return scope_; }
  // The pass whose fetch opened the step; nullptr: none did.
  Pass* pass() const noexcept { return pass_; }
  // The exhausted pass whose left batches the step is on; nullptr: it is on no such batches.
  const Pass* left_of() const noexcept { return left_of_; }
  // Has the step had its optimizer step?
  bool done() const noexcept { return done_; }
  // When an optimizer last stepped.
  std::uint64_t done_ns() const noexcept { return done_ns_; }
  // Has the step had a backward or an optimizer step?
  bool proven() const noexcept { return proven_; }
  // The number of this step, or of the last one; -1: there was none.
  std::int64_t index() const noexcept { return index_; }
  // The number of the next step.
  std::int64_t next() const noexcept { return next_; }
  // Sequence of the epoch-level scope that the number counts in; 0: there is none.
  std::uint64_t epoch() const noexcept { return epoch_; }

  // -- it begins --

  // The next step begins, in this scope.
  void begin(std::int64_t number, const record::ScopeHandle& opened) noexcept {
    earlier_index_ = index_;
    index_ = number;
    ++next_;
    scope_ = opened;
    pass_ = nullptr;
    earlier_done_ = done_;
    done_ = proven_ = reopened_ = false;
  }
  // The next step begins in the place of the old one, around a scope that the program has opened.
  // The scope of the step is renewed, and cannot be taken back.
  void begin_in_place() noexcept {
    earlier_index_ = index_;
    index_ = next_++;
    pass_ = nullptr;
    done_ = proven_ = false;
  }
  // The next step begins where its scope is not ours, or cannot be closed: the number stays.
  void begin_unnumbered() noexcept { done_ = proven_ = false; }
  // A fetch of this pass has opened the step.
  void note_fetch(Pass& pass) noexcept { pass_ = &pass; }
  // The step of this batch was taken back for a validation, and has begun once more.
  void note_reopened(Pass& pass) noexcept {
    pass_ = &pass;
    reopened_ = true;
  }
  // The step that begins is on batches that were left of this pass; nullptr: of none.
  void note_left(Pass* pass) noexcept { left_of_ = pass; }

  // -- it goes on --

  void note_proven() noexcept { proven_ = true; }
  void note_done() noexcept { done_ = true; }
  // An optimizer has stepped.
  void note_done(std::uint64_t now_ns) noexcept {
    done_ = true;
    done_ns_ = now_ns;
  }

  // -- its number --

  // Steps are numbered within the innermost scope that is an epoch. `sequence`: of that scope; 0:
  // there is none.
  void count_in(std::uint64_t sequence) noexcept {
    if (sequence != epoch_) count_anew(sequence, 0);
  }
  // A new epoch begins, in this scope, with the step of this number.
  void count_anew(std::uint64_t sequence, std::int64_t number) noexcept {
    epoch_ = sequence;
    next_ = number;
  }
  // The program, or a trainer, numbers the step.
  void renumber(std::int64_t number) noexcept { index_ = number; }
  // The step turned out to be none: its number goes to the next step.
  void give_number_back() noexcept { --next_; }

  // -- it was no step --

  // It is as if the step had never begun: its number is free again, and the step before it is the
  // newest. If it was on batches that were left, these count as left again.
  void take_back() noexcept {
    scope_ = {};
    give_number_back();
    index_ = earlier_index_;
    done_ = earlier_done_;
    if (left_of_ != nullptr) left_of_->fetch.left += left_of_->batches.per_step;
    left_of_ = nullptr;
  }
  void forget(const Pass& gone) noexcept {
    if (pass_ == &gone) pass_ = nullptr;
    if (left_of_ == &gone) left_of_ = nullptr;
  }

 private:
  record::ScopeHandle scope_;
  Pass* pass_ = nullptr;
  std::uint64_t done_ns_ = 0;
  bool done_ = false;
  bool earlier_done_ = false;  // the step before it had had its optimizer step
  bool proven_ = false;
  bool reopened_ = false;
  std::int64_t next_ = 0;
  std::int64_t index_ = -1;
  std::int64_t earlier_index_ = -1;  // the number of the step before it
  Pass* left_of_ = nullptr;
  std::uint64_t epoch_ = 0;
};

}  // namespace sonde::hook
