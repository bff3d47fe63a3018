// The moves: what is opened, closed and relabelled. Which of them is to be made follows from a
// verdict of judge.h; the table in transitions.cpp says which functions make it.
#pragma once

#include <cstdint>

#include "engine/base/placement.h"
#include "engine/hook/judge.h"
#include "engine/hook/seen.h"
#include "engine/hook/spans.h"

namespace sonde::hook {

class Transitions : public Seen {
 protected:
  // Asks until nothing is left to be asked, and carries every verdict out. Returns the last one.
  template <typename Judge>
  Verdict place(Here here, const Moment& now, Judge judge) {
    Verdict verdict{.next = Question::kValidation};
    while (verdict.next != Question::kNothing) {
      verdict = judge(verdict.next);
      if (!carry_out(here, verdict, now)) verdict.pend = false;
    }
    return verdict;
  }
  // False: a step was to begin, but a scope of the program's reaches across.
  SONDE_APART bool carry_out(Here here, const Verdict& verdict, const Moment& now);
  SONDE_APART void prove() noexcept;

  // -- leaves (leaving.cpp) --
  void settle() noexcept {
    passes_.peeked = nullptr;
    if (!leaves_.empty()) settle_leaves();
  }
  SONDE_HOT void settle_leaves() noexcept;
  SONDE_HOT void end_leaf(Here here, record::ScopeHandle& scope, Leaf::Kind kind,
                          const Moment& now);
  SONDE_HOT SONDE_APART void keep_leaf(Here here, record::ScopeHandle& scope, Leaf::Kind kind,
                                       const Moment& now);
  bool cancel(record::ScopeHandle& scope);

  // -- passes (finishing.cpp, turning.cpp) --
  void own(Here here, Pass& pass, bool evaluates, const Moment& now);
  void pause_checks(Here here, const Moment& now);
  SONDE_COLD void keep_what_waits(Here here, const Pass& next);
  SONDE_COLD void finish(record::ThreadState& thread, Pass& pass, const Moment& now);
  void end_inside(record::ThreadState& thread, const Pass& pass, const Moment& now);
  void close_scope_of(record::ThreadState& thread, Pass& pass, const Moment& now);
  void drop_last_fetch(record::ThreadState& thread, Pass& pass);
  void forget(Pass& pass);
  bool drop_peek(record::ThreadState& thread, Pass& pass);
  SONDE_COLD void turn_into_validation(Here here, Pass& pass);
  SONDE_COLD void turn_into_training(Here here, Pass& pass, const Moment& now);
  SONDE_COLD void turn_part_into_validation(Here here, Pass& pass);
  SONDE_COLD void leave_check(Here here, Pass& pass, std::size_t first, const Moment& now);
  SONDE_COLD void promote(Here here, Pass& pass);
  SONDE_COLD void drop_closed(bool by_program = true) noexcept;
  // An epoch of ours ends, and its number is used up.
  void report_epoch(std::uint64_t sequence) noexcept;

  // -- steps (stepping.cpp, left.cpp) --
  bool cancel_step();
  void take_step_back() noexcept;
  SONDE_HOT void close_step(record::ThreadState& thread, const Moment& now);
  SONDE_COLD void close_step_around(record::ThreadState& thread, const Moment& now);
  SONDE_APART void rotate_step(Here here, const Moment& now);
  void open_step(Here here, std::int64_t index, const Moment& now);
  SONDE_HOT void open_next_step(Here here, std::int64_t index, const Moment& now);
  SONDE_COLD void next_left(Here here, Pass& pass, const Moment& now);
  void use_left() noexcept;
  SONDE_COLD void make_room_for_check(Here here, const Moment& now);
  SONDE_COLD void open_owed_step(Here here, const Moment& now);

  // -- without a loader (iteration.cpp, looking.cpp) --
  bool next_iteration(Here here, const Moment& now);
  SONDE_COLD bool replace_step(Here here);
  SONDE_COLD void begin_with_leaves(Here here, const Moment& now);
  SONDE_COLD void begin_behind_leaves(Here here, const Moment& now);
  SONDE_COLD void step_with_leaves(Here here, const Moment& start);
  SONDE_COLD void split_iteration(Here here, std::size_t first);
  void open_counted(Here here, const Moment& now);
  void end_counted(record::ThreadState& thread, const Moment& now);
  SONDE_COLD void open_look(Here here, const Moment& now);
  void close_look(Here here, const Moment& now);
  SONDE_COLD void begin_look(Here here, bool with_leaves, const Moment& now);
  SONDE_COLD void leave_look(Here here, const Moment& now, std::size_t first);
  SONDE_COLD void turn_into_look(Here here, bool fetched);
  SONDE_COLD void write_check(Here here, const Moment& start, const Moment& end);
  SONDE_COLD void carve_check(Here here);
  void settle_in_look() noexcept;
  void forget_forward(const record::ScopeHandle& evaluation, const Moment& end) noexcept;

 private:
  bool make(Here here, const Verdict& verdict, const Moment& now);
};

}  // namespace sonde::hook
