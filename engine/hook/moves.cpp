// The table of moves: what each verdict of judge.h opens, closes and relabels.
#include "engine/hook/moves.h"

#include <array>
#include <cstddef>

#include "engine/hook/evidence.h"
#include "engine/hook/judge.h"
#include "engine/hook/moment.h"
#include "engine/hook/pass.h"
#include "engine/hook/seen.h"
#include "engine/hook/spans.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

namespace {

// A move that is being made.
struct Moving {
  Seen& seen;
  Here here;
  const Verdict& verdict;
  const Moment& now;
  bool made = true;  // false: see carry_out
};

// -- what runs belongs where it is --

void stay(Moving&) {}

void stay_in_check(Moving& move) {
  Pass& check = *move.seen.passes.checking();
  check.batches.sure = check.batches.sure || move.seen.running.reading.sure;
}

void stay_in_look(Moving& move) { settle_in_look(move.seen); }

void mark_evaluation(Moving& move) { move.seen.step.pass->evaluates = true; }

// -- a validation of a pass --

void train_check(Moving& move) {
  turn_into_training(move.seen, move.here, *move.seen.passes.checking(), move.now);
}

void leave_check_before(Moving& move) {
  leave_check(move.seen, move.here, *move.seen.passes.checking(), move.verdict.first, move.now);
}

void leave_used_check(Moving& move) {
  Pass& last = *move.seen.passes.last;
  turn_part_into_validation(move.seen, move.here, last);
  leave_check(move.seen, move.here, last, move.verdict.first, move.now);
}

void pause_all_checks(Moving& move) { pause_checks(move.seen, move.here, move.now); }

void turn_into_check(Moving& move) {
  Pass& pass = *move.seen.step.pass;
  turn_into_validation(move.seen, move.here, pass);
  pass.batches.sure = move.seen.running.reading.sure;
}

void turn_into_unused(Moving& move) {
  turn_into_validation(move.seen, move.here, *move.seen.step.pass);
}

void turn_last_into_unused(Moving& move) {
  turn_into_validation(move.seen, move.here, *move.seen.passes.last);
}

void make_room(Moving& move) { make_room_for_check(move.seen, move.here, move.now); }

// -- a validation without a loader --

void settle_and_look(Moving& move) {
  settle(move.seen);
  open_look(move.seen, move.here, move.now);
}

void look_from_loads(Moving& move) {
  begin_look(move.seen, move.here, move.verdict.loads, move.now);
  if (!move.verdict.pend) settle_in_look(move.seen);
}

void look_from_rollout(Moving& move) {
  begin_look(move.seen, move.here, true, move.now);
  settle_in_look(move.seen);
}

void leave_look_before(Moving& move) {
  leave_look(move.seen, move.here, move.now, move.verdict.first);
}

void leave_used_look(Moving& move) {
  const bool hinted = move.seen.learnt.hinted;
  const Owner owner = move.seen.learnt.owner;
  leave_look_before(move);
  move.seen.learnt.hinted = hinted;
  move.seen.learnt.owner = owner;
}

void turn_step_into_look(Moving& move) { turn_into_look(move.seen, move.here, false); }

void turn_rest_into_look(Moving& move) { turn_into_look(move.seen, move.here, true); }

void carve_out_check(Moving& move) { carve_check(move.seen, move.here); }

void carve_long_check(Moving& move) {
  carve_check(move.seen, move.here);
  settle_in_look(move.seen);
}

void end_step_for_look(Moving& move) {
  settle(move.seen);
  close_step(move.seen, move.here.thread, move.now);
  open_look(move.seen, move.here, move.now);
}

void end_step_below_scope(Moving& move) {
  settle(move.seen);
  record::ScopeHandle& step = move.seen.step.scope;
  close_around(move.here.thread, step, Moment::at(record::above(step).start_ns()));
  open_look(move.seen, move.here, move.now);
}

// -- a step --

void open_owed(Moving& move) { open_owed_step(move.seen, move.here, move.now); }

void step_from_loads(Moving& move) {
  const bool loads = move.verdict.loads;
  open_step(move.seen, move.here, -1, loads ? Moment(move.seen.leaves.front()) : Moment(move.now));
  if (loads) move.seen.leaves.move(0, move.seen.step.scope.sequence);
}

void step_on_next_left(Moving& move) {
  next_left(move.seen, move.here, *move.seen.passes.leader(), move.now);
}

void settle_and_next_left(Moving& move) {
  settle(move.seen);
  step_on_next_left(move);
}

void begin_iteration(Moving& move) { move.made = next_iteration(move.seen, move.here, move.now); }

void begin_step_with_leaves(Moving& move) { begin_with_leaves(move.seen, move.here, move.now); }

void begin_step_among_leaves(Moving& move) { begin_among_leaves(move.seen, move.here, move.now); }

void split_step(Moving& move) {
  Pass* pass = move.seen.step.pass;
  split_iteration(move.seen, move.here, move.verdict.first);
  if (pass != nullptr && !pass->trained) pass->evaluates = true;
}

// -- the table --

struct Row {
  Move move;
  void (*make)(Moving&);
};

constexpr std::array<Row, kMoves> kTable = {{
    {Move::kStay, stay},
    {Move::kStayInCheck, stay_in_check},
    {Move::kStayInLook, stay_in_look},
    {Move::kTrainCheck, train_check},
    {Move::kLeaveCheck, leave_check_before},
    {Move::kLeaveUsedCheck, leave_used_check},
    {Move::kPauseChecks, pause_all_checks},
    {Move::kOpenOwedStep, open_owed},
    {Move::kTurnIntoCheck, turn_into_check},
    {Move::kTurnIntoUnused, turn_into_unused},
    {Move::kTurnLastIntoUnused, turn_last_into_unused},
    {Move::kTurnIntoLook, turn_step_into_look},
    {Move::kTurnRestIntoLook, turn_rest_into_look},
    {Move::kMakeRoomForCheck, make_room},
    {Move::kOpenLook, settle_and_look},
    {Move::kLeaveLook, leave_look_before},
    {Move::kLeaveUsedLook, leave_used_look},
    {Move::kLookFromLoads, look_from_loads},
    {Move::kLookFromRollout, look_from_rollout},
    {Move::kStepFromLoads, step_from_loads},
    {Move::kEndStepForLook, end_step_for_look},
    {Move::kEndStepBelowScope, end_step_below_scope},
    {Move::kCarveCheck, carve_out_check},
    {Move::kCarveLongCheck, carve_long_check},
    {Move::kNextLeft, settle_and_next_left},
    {Move::kNextLeftWithLeaves, step_on_next_left},
    {Move::kNextIteration, begin_iteration},
    {Move::kBeginWithLeaves, begin_step_with_leaves},
    {Move::kBeginAmongLeaves, begin_step_among_leaves},
    {Move::kSplitIteration, split_step},
    {Move::kMarkEvaluation, mark_evaluation},
}};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (std::size_t(kTable[i].move) != i || kTable[i].make == nullptr) return false;
  }
  return true;
}
static_assert(is_in_order(), "one row for each Move, in the order of the enumeration");

}  // namespace

bool carry_out(Seen& seen, Here here, const Verdict& verdict, const Moment& now) {
  Moving move{seen, here, verdict, now};
  kTable[std::size_t(verdict.move)].make(move);
  Pass* pass = seen.step.pass;
  if (verdict.promote && pass != nullptr && !pass->trained) promote(seen, here, *pass);
  if (verdict.prove) prove(seen);
  if (verdict.settle) settle(seen);
  return move.made;
}

void prove(Seen& seen) noexcept {
  Learnt& learnt = seen.learnt;
  seen.step.proven = learnt.knows_training = true;
  learnt.trains_in_eval = learnt.trains_in_eval || (learnt.hinted && !learnt.bare);
  Pass* innermost = seen.passes.innermost();
  if (innermost != nullptr && !innermost->evaluates) innermost->trained = true;
  for (Pass* pass : seen.passes.known) {
    // A batch that came in the middle of an iteration without a loader proves nothing.
    const bool stray = seen.counted.is_open() && seen.step.pass != pass;
    if (pass->batches.unproven && !pass->evaluates && !stray) pass->trained = true;
    pass->batches.unproven = false;
  }
}

}  // namespace sonde::hook
