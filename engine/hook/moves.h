// The moves: functions that open, close and relabel scopes, and move leaves between them.
//
// A verdict of judge.h names one of them (Move), and the table in moves.cpp says which function
// makes it. All of them change the Seen of one stack, for the thread that runs that stack. Training
// decides when judge.h is asked, and what.
//
// judge.h explains the words check, look, counted, leaf, owed and left.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/placement.h"
#include "engine/hook/judge.h"
#include "engine/hook/leaves.h"
#include "engine/hook/moment.h"
#include "engine/hook/pass.h"
#include "engine/hook/seen.h"
#include "engine/hook/spans.h"
#include "engine/hook/verdict.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"

namespace sonde::hook {

// -- verdicts (moves.cpp) --

// A row of the table in words (docs/internals.md has all of them).
struct MoveText {
  const char* name;    // the enumerator's
  const char* ends;    // empty: nothing ends
  const char* begins;  // empty: nothing begins
};
MoveText text_of(Move move) noexcept;

// `about`: the pass that fetches or ends. The pass may be gone afterwards. False: a step was to
// begin, but a scope that the program has opened inside the last step is still open.
SONDE_APART bool carry_out(Seen& seen, Here here, const Verdict& verdict, const Moment& now,
                           Pass* about = nullptr);
// Asks until nothing is left to be asked, and carries every verdict out. Returns the last verdict.
template <typename Judge>
Verdict place(Seen& seen, Here here, const Moment& now, Judge judge, Pass* about = nullptr) {
  Verdict verdict{.next = Question::kValidation};
  while (verdict.next != Question::kNothing) {
    verdict = judge(verdict.next);
    if (!carry_out(seen, here, verdict, now, about)) verdict.event.pend = false;
  }
  return verdict;
}
// The batches that were fetched for this step are trained with.
SONDE_APART void prove(Seen& seen) noexcept;

// -- leaves (move_leaves.cpp) --

SONDE_HOT void settle_leaves(Seen& seen) noexcept;
// The leaves stay where they are.
SONDE_HOT inline void settle(Seen& seen) noexcept {
  seen.passes.peeked = nullptr;
  if (!seen.leaves.empty()) settle_leaves(seen);
}
// A fetch, a forward or a backward ends.
SONDE_HOT void end_leaf(Seen& seen, Here here, record::ScopeHandle& scope, Leaf::Kind kind,
                        const Moment& now);
// Takes a scope back as if it had never been opened. False: it is not the innermost, or a span is
// certain to be in it.
bool cancel(Seen& seen, record::ScopeHandle& scope);

// -- the scopes of passes (move_passes.cpp) --

// The pass gets a scope: a validation or an epoch.
void own(Seen& seen, Here here, Pass& pass, bool evaluates, const Moment& now);
// Training goes on while the iterators of validations live: their scopes end.
void pause_checks(Seen& seen, Here here, const Moment& now);
// The pass is over, and with it what is open in its scope.
SONDE_COLD void finish(Seen& seen, record::ThreadState& thread, Pass& pass, const Moment& now);
// The pass is unknown from now on. This call may free it.
void forget(Seen& seen, Pass& pass);
// Forgets the epochs and validations of ours that were closed together with a scope around them.
// `by_program`: that scope was the program's.
SONDE_COLD void drop_closed(Seen& seen, bool by_program = true) noexcept;
// An epoch of ours ends, and its number is used up.
void report_epoch(Seen& seen, std::uint64_t sequence) noexcept;

// -- fetches (move_fetches.cpp) --

// A fetch of this pass begins, and is not plain.
SONDE_APART void place_fetch(Seen& seen, Here here, Pass& pass, Hint hint, const Moment& now);
// A fetch has given no batch.
SONDE_COLD void exhaust(Seen& seen, Here here, Pass& pass, const Moment& now);
// Ends the passes that `next` shows to be over, although their iterators live.
void end_those_before(Seen& seen, Here here, const Pass& next, bool next_evaluates,
                      const Moment& now);

// -- what a pass opens, feeds and ends, one function for each row of the table (move_roles.cpp) --

SONDE_COLD void feed_check(Seen& seen, Here here, Pass& pass, const Moment& now);
SONDE_COLD void open_check(Seen& seen, Here here, Pass& pass, const Moment& now);
SONDE_COLD void feed_epoch(Seen& seen, Here here, Pass& pass, const Moment& now);
SONDE_COLD void open_epoch(Seen& seen, Here here, Pass& pass, const Moment& now);
SONDE_COLD void resume_check(Seen& seen, Here here, Pass& pass, const Moment& now);
SONDE_COLD void fetch_in_look(Seen& seen, Here here, Pass& pass, const Moment& now);
SONDE_COLD void replace_counted(Seen& seen, Here here, Pass& pass, const Moment& now);
SONDE_COLD void reopen_epoch(Seen& seen, Here here, Pass& pass, const Moment& now);
SONDE_COLD void keep_left(Seen& seen, Here here, Pass& pass, const Moment& now);
SONDE_COLD void drop_empty_scope(Seen& seen, Here here, Pass& pass, const Moment& now);
SONDE_COLD void finish_pass(Seen& seen, Here here, Pass& pass, const Moment& now);
SONDE_COLD void finish_peek(Seen& seen, Here here, Pass& pass, const Moment& now);
SONDE_COLD void finish_epoch(Seen& seen, Here here, Pass& pass, const Moment& now);
SONDE_COLD void finish_check(Seen& seen, Here here, Pass& pass, const Moment& now);

// -- passes that are left (move_leaving.cpp) --

// The iterator is used on another stack from now on, or was freed.
void leave(record::ThreadState& thread, Pass& pass) noexcept;
SONDE_COLD void leave_all(Seen& seen, Here here) noexcept;
// A model or an optimizer runs here, so this thread does not only fetch: its passes begin anew.
inline void end_fetching_only(Seen& seen, Here here) noexcept {
  if (seen.claims.fetches_for_trainer && seen.passes.fetch_depth == 0) [[unlikely]]
    leave_all(seen, here);
}

// -- ends (move_ends.cpp) --

// What came before ends. `next`: a fetch of this pass ends it; nullptr: something else does.
void conclude(Seen& seen, Here here, const Moment& now, const Pass* next = nullptr);
// No program fetches inside a step of an optimizer: the steps under way are over, although nothing
// has said so.
void close_stale_optimizers(Seen& seen, record::ThreadState& thread, const Moment& now);
// A trainer begins that opens the epochs, or one that announces everything: what a loop before it
// has left open ends here.
void make_room_for_trainer(Seen& seen, Here here, const Moment& now);
void make_room_for_announced(Seen& seen, Here here, const Moment& now);
// The session ends, and with it a loop that no event has ended.
void end_loop(Seen& seen, Here here) noexcept;
// The hooks are taken away: what they have opened ends here.
void finish_everything(Seen& seen, Here here) noexcept;

// -- what a pass turns out to be, against what it was taken for (move_turns.cpp) --

// The pass was only a peek: takes its scopes back. False: something is in them.
bool drop_peek(Seen& seen, record::ThreadState& thread, Pass& pass);
// If judge.h says so, the batch of the open validation waits to be trained with while `next`
// fetches.
SONDE_COLD void keep_what_waits(Seen& seen, Here here, const Pass& next);
SONDE_COLD void turn_into_check(Seen& seen, Here here, Pass& pass);
SONDE_COLD void turn_part_into_check(Seen& seen, Here here, Pass& pass);
SONDE_COLD void train_check(Seen& seen, Here here, Pass& pass, const Moment& now);
// The validation of the pass ends before the leaf `first`.
SONDE_COLD void leave_check(Seen& seen, Here here, Pass& pass, std::size_t first,
                            const Moment& now);
// The pass that opened the step gets an epoch of its own, if judge.h says so.
SONDE_COLD void promote(Seen& seen, Here here, Pass& pass);

// -- steps (move_steps.cpp) --

// `index` -1: the step gets the next number.
void open_step(Seen& seen, Here here, std::int64_t index, const Moment& now);
SONDE_HOT void open_next_step(Seen& seen, Here here, std::int64_t index, const Moment& now);
SONDE_HOT void close_step(Seen& seen, record::ThreadState& thread, const Moment& now);
// The same, but what the program has opened inside goes on.
SONDE_COLD void close_step_around(Seen& seen, record::ThreadState& thread, const Moment& now);
// A batch is fetched: if the step is done, the next one begins.
SONDE_APART void rotate_step(Seen& seen, Here here, const Moment& now);
// Takes the step back as if it had never begun. False: its scope cannot be taken back.
bool cancel_step(Seen& seen);
// The same where the scope of the step stays, as something else.
void take_step_back(Seen& seen) noexcept;

// -- batches that wait for their step (move_waiting.cpp) --

SONDE_COLD void next_left(Seen& seen, Here here, Pass& pass, const Moment& now);
void use_left(Seen& seen) noexcept;
SONDE_COLD void make_room_for_check(Seen& seen, Here here, const Moment& now);
SONDE_COLD void open_owed_step(Seen& seen, Here here, const Moment& now);

// -- steps and epochs without a loader (move_iterations.cpp) --

// False: a scope that the program has opened inside the step is still open, so the step goes on.
bool next_iteration(Seen& seen, Here here, const Moment& now);
// The same where the program has opened that scope after the step was done.
SONDE_COLD bool replace_step(Seen& seen, Here here);
SONDE_COLD void begin_with_leaves(Seen& seen, Here here, const Moment& now);
SONDE_COLD void begin_among_leaves(Seen& seen, Here here, const Moment& now);
// A step begins where the leaves begin, and all of them are in it.
SONDE_COLD void step_with_leaves(Seen& seen, Here here, const Moment& start);
SONDE_COLD void split_iteration(Seen& seen, Here here, std::size_t first);
void end_counted(Seen& seen, record::ThreadState& thread, const Moment& now);

// -- looks: validations without a loader (move_looks.cpp) --

SONDE_COLD void open_look(Seen& seen, Here here, const Moment& now);
void close_look(Seen& seen, Here here, const Moment& now);
// Opens a look. `with_leaves`: they are a part of it.
SONDE_COLD void begin_look(Seen& seen, Here here, bool with_leaves, const Moment& now);
SONDE_COLD void leave_look(Seen& seen, Here here, const Moment& now, std::size_t first);
// `fetched`: the fetches that the step began with are not a part of the look.
SONDE_COLD void turn_into_look(Seen& seen, Here here, bool fetched);
// The leaves were an evaluation beside the step, which is over.
SONDE_COLD void write_look(Seen& seen, Here here, const Moment& start, const Moment& end);
SONDE_COLD void carve_look(Seen& seen, Here here);
// The leaves are certain to be in the look.
void settle_in_look(Seen& seen) noexcept;
// An evaluation ends: if the last model that had gradients ran in it, the next backward goes
// through something else.
void forget_forward(Seen& seen, const record::ScopeHandle& evaluation, const Moment& end) noexcept;

}  // namespace sonde::hook
