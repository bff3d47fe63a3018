// The table of moves: what each verdict of judge.h ends and begins, and which function does it.
#include "engine/hook/moves.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/hook/evidence.h"
#include "engine/hook/judge.h"
#include "engine/hook/moment.h"
#include "engine/hook/names.h"
#include "engine/hook/pass.h"
#include "engine/hook/seen.h"
#include "engine/hook/spans.h"
#include "engine/hook/verdict.h"
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
  Pass* pass;        // that fetches or ends; nullptr: the move is not about such a pass
  bool made = true;  // false: see carry_out
};

// One function for each row of the table, named like its Move. Those of hook:: do the work for
// other callers as well.
namespace make {

// -- what runs belongs where it is --

void stay(Moving&) {}

void stay_in_check(Moving& move) {
  Pass& check = *move.seen.passes.checking();
  check.batches.sure = check.batches.sure || move.seen.running.reading.sure;
}

void stay_in_look(Moving& move) { settle_in_look(move.seen); }

void mark_evaluation(Moving& move) { move.seen.step.pass()->evaluates = true; }

// -- a validation of a pass --

void train_check(Moving& move) {
  hook::train_check(move.seen, move.here, *move.seen.passes.checking(), move.now);
}

void leave_check(Moving& move) {
  hook::leave_check(move.seen, move.here, *move.seen.passes.checking(), move.verdict.about.first,
                    move.now);
}

void leave_used_check(Moving& move) {
  Pass& last = *move.seen.passes.last;
  turn_part_into_check(move.seen, move.here, last);
  hook::leave_check(move.seen, move.here, last, move.verdict.about.first, move.now);
}

void pause_checks(Moving& move) { hook::pause_checks(move.seen, move.here, move.now); }

void turn_into_check(Moving& move) {
  Pass& pass = *move.seen.step.pass();
  hook::turn_into_check(move.seen, move.here, pass);
  pass.batches.sure = move.seen.running.reading.sure;
}

void turn_into_unused(Moving& move) {
  hook::turn_into_check(move.seen, move.here, *move.seen.step.pass());
}

void turn_last_into_unused(Moving& move) {
  hook::turn_into_check(move.seen, move.here, *move.seen.passes.last);
}

void make_room_for_check(Moving& move) {
  hook::make_room_for_check(move.seen, move.here, move.now);
}

// -- a validation without a loader --

void open_look(Moving& move) {
  settle(move.seen);
  hook::open_look(move.seen, move.here, move.now);
}

void look_from_loads(Moving& move) {
  begin_look(move.seen, move.here, move.verdict.about.loads, move.now);
  if (!move.verdict.event.pend) settle_in_look(move.seen);
}

void look_from_rollout(Moving& move) {
  begin_look(move.seen, move.here, true, move.now);
  settle_in_look(move.seen);
}

void leave_look(Moving& move) {
  hook::leave_look(move.seen, move.here, move.now, move.verdict.about.first);
}

void leave_used_look(Moving& move) {
  const bool hinted = move.seen.learnt.hinted;
  const Owner owner = move.seen.learnt.owner;
  leave_look(move);
  move.seen.learnt.hinted = hinted;
  move.seen.learnt.owner = owner;
}

void turn_into_look(Moving& move) { hook::turn_into_look(move.seen, move.here, false); }

void turn_rest_into_look(Moving& move) { hook::turn_into_look(move.seen, move.here, true); }

void carve_look(Moving& move) { hook::carve_look(move.seen, move.here); }

void carve_long_look(Moving& move) {
  hook::carve_look(move.seen, move.here);
  settle_in_look(move.seen);
}

void end_step_for_look(Moving& move) {
  settle(move.seen);
  close_step(move.seen, move.here.thread, move.now);
  hook::open_look(move.seen, move.here, move.now);
}

void end_step_below_scope(Moving& move) {
  settle(move.seen);
  record::ScopeHandle& step = move.seen.step.handle();
  close_around(move.here.thread, step, Moment::at(record::above(step).start_ns()));
  hook::open_look(move.seen, move.here, move.now);
}

// -- a step --

void open_owed_step(Moving& move) { hook::open_owed_step(move.seen, move.here, move.now); }

void step_from_loads(Moving& move) {
  const bool loads = move.verdict.about.loads;
  open_step(move.seen, move.here, -1, loads ? Moment(move.seen.leaves.front()) : Moment(move.now));
  if (loads) move.seen.leaves.move(0, move.seen.step.handle().sequence);
}

void next_left_with_leaves(Moving& move) {
  hook::next_left(move.seen, move.here, *move.seen.passes.leader(), move.now);
}

void next_left(Moving& move) {
  settle(move.seen);
  next_left_with_leaves(move);
}

void next_iteration(Moving& move) {
  move.made = hook::next_iteration(move.seen, move.here, move.now);
}

void begin_with_leaves(Moving& move) { hook::begin_with_leaves(move.seen, move.here, move.now); }

void begin_among_leaves(Moving& move) { hook::begin_among_leaves(move.seen, move.here, move.now); }

void split_iteration(Moving& move) {
  Pass* pass = move.seen.step.pass();
  hook::split_iteration(move.seen, move.here, move.verdict.about.first);
  if (pass != nullptr && !pass->trained) pass->evaluates = true;
}

// -- a pass that fetches or ends --

template <void (*kWork)(Seen&, Here, Pass&, const Moment&)>
void of_pass(Moving& move) {
  kWork(move.seen, move.here, *move.pass, move.now);
}

void fetch_here(Moving& move) {
  if (!move.seen.leaves.only_loads()) settle(move.seen);
}

void fetch_in_no_step(Moving& move) {
  if (move.seen.step.is_open()) close_step(move.seen, move.here.thread, move.now);
  settle(move.seen);
}

void fetch_in_next_step(Moving& move) {
  fetch_in_no_step(move);
  open_step(move.seen, move.here, -1, move.now);
}

// -- a step that a trainer announces --

void renumber_step(Moving& move) {
  const std::int64_t number = move.verdict.about.number;
  record::relabel_scope(move.seen.step.handle(), names().step, number);
  move.seen.step.renumber(number);
}

void open_numbered_step(Moving& move) {
  if (move.seen.step.is_open()) close_step(move.seen, move.here.thread, move.now);
  open_step(move.seen, move.here, move.verdict.about.number, move.now);
}

}  // namespace make

// -- the table --

struct Row {
  Move move;
  MoveText text;
  void (*make)(Moving&);
};

constexpr std::array<Row, kMoves> kTable = {{
    {Move::kStay, {"stay", "", ""}, make::stay},
    {Move::kStayInCheck, {"stay_in_check", "", ""}, make::stay_in_check},
    {Move::kStayInLook, {"stay_in_look", "", ""}, make::stay_in_look},
    {Move::kTrainCheck, {"train_check", "check", "epoch, step"}, make::train_check},
    {Move::kLeaveCheck, {"leave_check", "check", "step"}, make::leave_check},
    {Move::kLeaveUsedCheck,
     {"leave_used_check", "step, check", "check, step"},
     make::leave_used_check},
    {Move::kPauseChecks, {"pause_checks", "checks, look", ""}, make::pause_checks},
    {Move::kOpenOwedStep, {"open_owed_step", "", "owed step"}, make::open_owed_step},
    {Move::kTurnIntoCheck, {"turn_into_check", "step", "check"}, make::turn_into_check},
    {Move::kTurnIntoUnused, {"turn_into_unused", "step", "check"}, make::turn_into_unused},
    {Move::kTurnLastIntoUnused,
     {"turn_last_into_unused", "step", "check"},
     make::turn_last_into_unused},
    {Move::kTurnIntoLook, {"turn_into_look", "step", "look"}, make::turn_into_look},
    {Move::kTurnRestIntoLook, {"turn_rest_into_look", "step", "look"}, make::turn_rest_into_look},
    {Move::kMakeRoomForCheck, {"make_room_for_check", "step", ""}, make::make_room_for_check},
    {Move::kOpenLook, {"open_look", "", "look"}, make::open_look},
    {Move::kLeaveLook, {"leave_look", "look", "step"}, make::leave_look},
    {Move::kLeaveUsedLook, {"leave_used_look", "look", "step"}, make::leave_used_look},
    {Move::kLookFromLoads, {"look_from_loads", "", "look"}, make::look_from_loads},
    {Move::kLookFromRollout, {"look_from_rollout", "", "look"}, make::look_from_rollout},
    {Move::kStepFromLoads, {"step_from_loads", "", "step"}, make::step_from_loads},
    {Move::kEndStepForLook, {"end_step_for_look", "step", "look"}, make::end_step_for_look},
    {Move::kEndStepBelowScope,
     {"end_step_below_scope", "step", "look"},
     make::end_step_below_scope},
    {Move::kCarveLook, {"carve_look", "step", "look"}, make::carve_look},
    {Move::kCarveLongLook, {"carve_long_look", "step", "look"}, make::carve_long_look},
    {Move::kNextLeft, {"next_left", "step or epoch", "step"}, make::next_left},
    {Move::kNextLeftWithLeaves,
     {"next_left_with_leaves", "step or epoch", "step"},
     make::next_left_with_leaves},
    {Move::kNextIteration, {"next_iteration", "step", "step"}, make::next_iteration},
    {Move::kBeginWithLeaves, {"begin_with_leaves", "", "step"}, make::begin_with_leaves},
    {Move::kBeginAmongLeaves, {"begin_among_leaves", "step", "step"}, make::begin_among_leaves},
    {Move::kSplitIteration, {"split_iteration", "step", "look, step"}, make::split_iteration},
    {Move::kMarkEvaluation, {"mark_evaluation", "", ""}, make::mark_evaluation},
    {Move::kFetchHere, {"fetch_here", "", ""}, make::fetch_here},
    {Move::kFeedCheck, {"feed_check", "", ""}, make::of_pass<feed_check>},
    {Move::kOpenCheck, {"open_check", "step, look", "check"}, make::of_pass<open_check>},
    {Move::kFeedEpoch, {"feed_epoch", "look", ""}, make::of_pass<feed_epoch>},
    {Move::kOpenEpoch, {"open_epoch", "step, look", "epoch"}, make::of_pass<open_epoch>},
    {Move::kResumeCheck,
     {"resume_check", "passes, step, look", "check"},
     make::of_pass<resume_check>},
    {Move::kFetchInLook, {"fetch_in_look", "step", "look"}, make::of_pass<fetch_in_look>},
    {Move::kReplaceCounted,
     {"replace_counted", "step, epoch", "epoch"},
     make::of_pass<replace_counted>},
    {Move::kReopenEpoch, {"reopen_epoch", "", "epoch"}, make::of_pass<reopen_epoch>},
    {Move::kFetchInNextStep, {"fetch_in_next_step", "step", "step"}, make::fetch_in_next_step},
    {Move::kFetchInNoStep, {"fetch_in_no_step", "step", ""}, make::fetch_in_no_step},
    {Move::kKeepLeft, {"keep_left", "", ""}, make::of_pass<keep_left>},
    {Move::kDropEmptyScope,
     {"drop_empty_scope", "epoch or check", ""},
     make::of_pass<drop_empty_scope>},
    {Move::kFinishPass,
     {"finish_pass", "step, epoch or check", "owed step"},
     make::of_pass<finish_pass>},
    {Move::kFinishPeek, {"finish_peek", "epoch or check", ""}, make::of_pass<finish_peek>},
    {Move::kFinishEpoch, {"finish_epoch", "epoch", ""}, make::of_pass<finish_epoch>},
    {Move::kFinishCheck, {"finish_check", "check", ""}, make::of_pass<finish_check>},
    {Move::kRenumberStep, {"renumber_step", "", ""}, make::renumber_step},
    {Move::kOpenNumberedStep, {"open_numbered_step", "step", "step"}, make::open_numbered_step},
}};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (std::size_t(kTable[i].move) != i || kTable[i].make == nullptr) return false;
  }
  return true;
}
static_assert(is_in_order(), "one row for each Move, in the order of the enumeration");

}  // namespace

MoveText text_of(Move move) noexcept { return kTable[std::size_t(move)].text; }

bool carry_out(Seen& seen, Here here, const Verdict& verdict, const Moment& now, Pass* about) {
  Moving move{seen, here, verdict, now, about};
  kTable[std::size_t(verdict.move)].make(move);
  Pass* pass = seen.step.pass();
  if (verdict.after.promote && pass != nullptr && !pass->trained) promote(seen, here, *pass);
  if (verdict.after.prove) prove(seen);
  if (verdict.after.settle) settle(seen);
  return move.made;
}

void prove(Seen& seen) noexcept {
  Learnt& learnt = seen.learnt;
  seen.step.note_proven();
  learnt.knows_training = true;
  learnt.trains_in_eval = learnt.trains_in_eval || (learnt.hinted && !learnt.bare);
  const Pass* innermost = seen.passes.innermost();
  for (Pass* pass : seen.passes.known) {
    const bool stray = seen.counted.is_open() && seen.step.pass() != pass;
    if (is_proven(*pass, pass == innermost, stray)) pass->trained = true;
    pass->batches.unproven = false;
  }
}

}  // namespace sonde::hook
