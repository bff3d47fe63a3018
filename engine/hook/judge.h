// What a training loop means: pure functions from what was seen to what follows from it.
//
// Nothing here opens, closes or remembers anything: the same evidence gives the same verdict.
// docs/hooks.md has the rules; comments here name them by number. Seen gathers the evidence, the
// events ask, and moves.cpp carries the verdict out (verdict.h). How a move is made is decided
// there: a scope in which something is certain to lie cannot be taken back, and is relabelled.
//
// Words that are used in a narrower sense than usual:
//   pass      one iteration over a loader, from its first fetch to its end
//   check     a validation that belongs to a pass: its scope ends with the pass
//   look      a validation without a loader: forwards that train nothing, outside a step
//   counted   an epoch without a loader: it ends after a fixed number of steps
//   leaf      a closed fetch, forward or backward whose parent can still be changed
//   leader    the pass whose batches are trained with
//   owed      a batch fetched before a validation; its step comes after the validation
//   left      a batch fetched ahead that is still to be trained with when its loader is exhausted
//   peek      a pass that fetched one batch and did nothing with it
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/hook/evidence.h"
#include "engine/hook/leaves.h"
#include "engine/hook/level.h"
#include "engine/hook/pass.h"
#include "engine/hook/verdict.h"

namespace sonde::hook {

// -- what runs (judge_forward.cpp, judge_training.cpp) --

Reading read_forward(const Forward& forward, bool trains_in_eval) noexcept;
Verdict judge_forward(const Evidence& seen, Question from) noexcept;
Verdict judge_backward(const Evidence& seen, Question from) noexcept;
// Autograd has told which forwards the backward went through.
Verdict judge_graph(const Evidence& seen) noexcept;
struct OptimizerCall {
  const void* optimizer = nullptr;  // only compared
  bool closure = false;             // the step has a closure, which runs the model
};
Verdict judge_optimizer(const Evidence& seen, const OptimizerCall& call, Question from) noexcept;
// A validation of a pass is open and turns out to be training.
Verdict judge_trained_check(const Evidence& seen) noexcept;
// What the leaves turn out to be. A fetch of `next` ends the stretch; null: something else ends it.
Verdict judge_stretch(const Evidence& seen, const PassEvidence* next) noexcept;

// Rule 4: a loader is exhausted, and the step on one of its batches is done. May what runs now be
// on the next of the batches that are left?
bool may_be_on_left(const Evidence& seen) noexcept;
// Index of the first leaf that trains; size(): nothing trains. `sure`: forwards with gradients off
// at the front are an evaluation.
std::size_t first_trained(const Leaves& leaves, bool bare, bool sure = true) noexcept;
// The pass that opened the step began inside an epoch without a loader, or inside the epoch of a
// pass that may be over. Is it a loop by itself once its batch is trained with?
bool can_promote(const Evidence& seen) noexcept;

// -- what is fetched (judge_fetch.cpp) --

// Does a pass that begins with this fetch look like a validation?
bool looks_like_validation(Hint hint, bool trains_in_eval, bool loader_trained) noexcept;
// `peeked` has fetched once, and `next` begins. Was `peeked` only a peek, because `next` is another
// pass over the same loader?
bool was_peek(const PassEvidence& peeked, const PassEvidence& next) noexcept;
// A validation is open, and a pass begins that looks like another validation: is the open one over?
bool ends_check(const PassEvidence& check, Hint hint) noexcept;
// `check` was taken for a validation. Does its batch wait to be trained with while `next` fetches?
bool waits_for_training(const PassEvidence& check, const PassEvidence& next) noexcept;

struct Succession {
  const PassEvidence& outer;
  const PassEvidence& next;
  bool next_evaluates = false;
  bool outer_open = false;   // the scope of `outer` is open
  bool outer_owed = false;   // the batch of `outer` waits for its step
  bool outer_fed = false;    // `next`, or a pass over the same loader, was the last to feed `outer`
  bool steps_taken = false;  // steps are not ours to open
  bool done = false;         // the step has had its optimizer step
};
// Does `next` show that the pass `outer` is over, although its iterator lives?
bool is_over(const Succession& seen) noexcept;

enum class NewPass : std::uint8_t {
  kFeedsValidation,  // it feeds a validation that is not ours
  kOpensValidation,
  kFeedsEpoch,
  kOpensEpoch,
};
NewPass judge_new_pass(bool evaluates, bool validation_taken, bool in_epoch) noexcept;

enum class NextFetch : std::uint8_t {
  kOfValidation,       // it belongs to the validation that is open
  kResumesValidation,  // it belongs to a validation that was paused
  kOfLook,             // gradients are off, and the loader is trained with: a look begins
  kOfTraining,         // it belongs to training
};
NextFetch judge_next_fetch(const PassEvidence& pass, Hint hint, bool validation_taken) noexcept;

// A pass may wait until the last batches of the pass before it have been trained with or dropped.
// Has that happened? `done`: the step has had its optimizer step.
bool stops_waiting(const PassEvidence& pass, bool done) noexcept;
// `outer` is the innermost pass that has a scope (null: there is none). Can a pass that has waited
// take its place?
bool can_follow(const PassEvidence* outer) noexcept;

enum class EpochOfFetch : std::uint8_t {
  kPresent,           // in the epoch that is open
  kInsteadOfCounted,  // in a new epoch, which takes the place of a counted one
  kItsOwn,            // in a new epoch, because the epoch that the pass fed is over
};
// A pass that trains fetches once more. In which epoch is the fetch?
EpochOfFetch judge_epoch_of_fetch(const PassEvidence& pass, bool counted_innermost,
                                  bool in_epoch) noexcept;

// A fetch of this pass has opened a step. Is that step like the one before, so that its events can
// take the short way (plain.h)?
struct PlainEvidence {
  const PassEvidence& pass;
  bool alone = false;         // no other pass is known
  bool opened_step = false;   // the pass opened the step, which is the innermost scope
  bool unclaimed = false;     // no trainer and no loop of the program claims the steps
  bool by_optimizer = false;  // optimizers end the steps
  bool nothing_else = false;  // no batch is owed or left, and nothing else is open
};
bool is_plain(const PlainEvidence& seen) noexcept;

// -- passes and steps (judge_pass.cpp) --

// After more iterations than this on one batch, the loader no longer feeds them: no pass leads.
inline constexpr std::uint32_t kMostIterations = 16;
// Can the pass be the leader? Of those that can, the newest is the leader.
inline bool may_lead(const PassEvidence& pass) noexcept {
  if (pass.relation.parted) return false;
  return pass.trained || (!pass.evaluates && pass.role == PassEvidence::Role::kOwner);
}
// Rule 4: so many fetches came before anything was done with a batch. How many of them were made
// ahead?
std::uint32_t count_ahead(std::uint32_t fetches) noexcept;
// Rule 4: a loader is exhausted. How many of its batches had no finished step, and how many of them
// make a step? The last fetch, which gave no batch, is counted in `idle` and `count`.
struct Unfinished {
  std::uint32_t left = 0, per_step = 1;
};
Unfinished judge_unfinished(const PassEvidence& pass) noexcept;

// -- the levels of others, rule 8 (judge_pass.cpp) --

// A scope that is open on the stack.
struct OpenScope {
  bool owns_epochs = false, owns_steps = false, owns_validation = false;  // a trainer's, as flags
  bool named = false;  // it has the name of a level
  Level level = Level::kEpoch;
  bool ours = false;
  std::uint64_t sequence = 0;
};
// Adds what this scope takes. To be called from the innermost scope outwards.
inline void add_open(Levels& found, const OpenScope& scope) noexcept {
  const bool theirs = scope.named && !scope.ours;
  const bool epoch = scope.named && scope.level == Level::kEpoch;
  found.epoch |= scope.owns_epochs || (theirs && epoch);
  found.step |= scope.owns_steps || (theirs && scope.level == Level::kStep);
  found.validation |= scope.owns_validation || (theirs && scope.level == Level::kValidation);
  if (epoch && found.innermost_epoch == 0) found.innermost_epoch = scope.sequence;
}
// Adds what trainers, and the program's own loops, have said they open themselves.
Levels add_claims(Levels found, const Claims& claims) noexcept;

// -- the step that is open (judge_step.cpp) --

// Rules 3 and 8: a batch is fetched to be trained with. In which step is the fetch?
enum class StepOfFetch : std::uint8_t {
  kPresent,  // in the one that is open
  kNext,     // in the next one, which begins
  kTheirs,   // in none of ours: steps are not ours to open
};
struct FetchedInStep {
  bool step_open = false;
  bool done = false;      // the step has had its optimizer step
  bool closable = false;  // the step is on this stack, and nothing is open inside it
  bool taken = false;     // steps are not ours to open
};
StepOfFetch judge_step_of_fetch(const FetchedInStep& seen) noexcept;

// Rule 8: a trainer begins a step and gives it a number. Which step is it?
enum class NumberedStep : std::uint8_t {
  kPresent,  // the one that is open
  kNext,     // the next one, which begins
  kTheirs,   // none of ours: steps are not ours to open, or the last one cannot be closed here
};
struct AnnouncedStep {
  bool step_open = false;
  bool done = false;      // the step has had its optimizer step
  bool closable = false;  // the step is on this stack, and nothing is open inside it
  bool taken = false;     // steps are not ours to open
};
NumberedStep judge_numbered_step(const AnnouncedStep& seen) noexcept;

// Rule 3: a validation is about to begin. What becomes of the step?
enum class Room : std::uint8_t {
  kStepGoesOn,  // it is around the validation, or there is none
  kStepEnds,    // it is done, and ends before the validation
  kStepWaits,   // it has only its batch, so it is taken back and begins after the validation
};
struct StepBeforeCheck {
  bool innermost = false;  // the step is open, and nothing is open inside it
  bool done = false, proven = false;
  bool only_fetches = false;  // all leaves are fetches, and lie in the step
  bool untouched = false;     // nothing else was recorded
};
Room judge_room(const StepBeforeCheck& seen) noexcept;

// Rule 5: a backward has ended. Is no optimizer going to step, because the program updates by hand?
// Then the step is done.
struct EndedBackward {
  bool announced = false;          // a trainer announces everything
  bool in_optimizer = false;       // an optimizer's step is under way, around the backward
  bool optimizer_stepped = false;  // some optimizer has stepped
  bool optimizer_owns = false;     // an optimizer owns what was trained
  bool step_open = false;
};
bool updates_by_hand(const EndedBackward& seen) noexcept;

// The batches of the step are trained with. Does that show that this pass is trained with?
// `innermost`: it is the innermost pass that has a scope. `stray`: its batch came in the middle of
// an iteration without a loader.
bool is_proven(const PassEvidence& pass, bool innermost, bool stray) noexcept;

// An optimizer begins a step with a closure, which runs the model itself. What was the code that
// ran before it? `step_done`: a step is open and has had its optimizer step.
enum class BeforeClosure : std::uint8_t {
  kMayBeUsed,  // a part of what is under way
  kWasLook,    // a look, which followed the step
  kIsOver,     // something that ends here
};
BeforeClosure judge_before_closure(const Leaves& leaves, bool step_done) noexcept;

// A step begins below the scope `parent`. Index of the first leaf that is certain to be a part of
// it; size(): none is.
std::size_t first_in_step(const Leaves& leaves, std::uint64_t parent) noexcept;

// -- what ends (judge_end.cpp) --

enum class NoMore : std::uint8_t {
  kLeftovers,   // batches are left to train with
  kEmptyScope,  // the fetch that gave no batch has opened the scope of the pass, which stays empty
  kOver,        // the pass is over
};
// A loader is exhausted. `left`: how many of its batches had no finished step.
NoMore judge_no_more(const PassEvidence& pass, std::uint32_t left, bool scope_open) noexcept;

enum class Ending : std::uint8_t { kPeek, kEpoch, kOther };
Ending judge_ending(const PassEvidence& pass) noexcept;

// A pass ends. Was its loop left right after a fetch (rule 3), so that the step which the fetch
// opened has to be taken back?
struct LastFetch {
  const PassEvidence& pass;
  bool scope_open = false;      // the scope of the pass is open
  bool opened_step = false;     // a fetch of the pass has opened the step
  bool step_innermost = false;  // the step is open, and nothing is open inside it
  bool step_proven = false;     // the step has had a backward or an optimizer step
  bool step_certain = false;    // a span is certain to be in the step
  bool only_fetches = false;    // all leaves are fetches, and lie in the step
  bool untouched = false;       // nothing else was recorded
};
bool fetched_for_nothing(const LastFetch& seen) noexcept;

// A scope of the program has ended, and with it a counted epoch of this many steps. Does such a
// scope lie around each single iteration, so that no epoch belongs in it? `held_full`: the last
// full epoch was in the same scope.
bool wraps_one_iteration(std::int64_t steps, bool held_full) noexcept;

// The session ends, and no event has ended the loop. Is the loop over?
struct LoopEnd {
  const PassEvidence* fetched = nullptr;  // the pass whose fetch opened the step
  bool claimed = false;                   // a trainer, or the program, opens the steps
  bool step_open = false;
  bool step_done = false;    // the step has had its optimizer step
  bool step_stands = false;  // nothing is open inside the step, and no exception passed through it
};
bool is_loop_over(const LoopEnd& seen) noexcept;

// A trainer begins: is this pass (null: there is none) over, although its iterator lives?
bool ends_for_trainer(const PassEvidence* pass) noexcept;

// The iterator that fetched ahead for the next epoch is gone. Is nothing left of the pass before
// it, `outer`?
bool has_nothing_left(const PassEvidence& outer, bool done) noexcept;

// -- the moves that follow from these answers (judge_answers.cpp) --

Verdict verdict_on(NewPass found) noexcept;
// `trained`: the pass is certain to be trained with.
Verdict verdict_on(NextFetch found, bool trained) noexcept;
Verdict verdict_on(EpochOfFetch found) noexcept;
Verdict verdict_on(StepOfFetch found) noexcept;
Verdict verdict_on(NoMore found) noexcept;
Verdict verdict_on(Ending found) noexcept;
Verdict verdict_on(NumberedStep found, std::int64_t number) noexcept;

}  // namespace sonde::hook
