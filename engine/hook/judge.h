// What a training loop means: pure functions from what was seen to what follows from it.
//
// Nothing here opens, closes or remembers anything: the same evidence gives the same verdict.
// docs/hooks.md has the rules; comments here name them by number. Training gathers the evidence,
// asks, and carries the verdict out (moves.cpp). Some moves only clear the way: their verdict names
// the question that is to be asked next, with new evidence.
//
// Words that are used in a narrower sense than usual:
//   pass      one iteration over a loader, from its first fetch to its end
//   check     a validation that belongs to a pass: its scope ends with the pass
//   look      a validation without a loader: forwards that train nothing, outside a step
//   counted   an epoch without a loader: it ends after a fixed number of steps
//   leaf      a closed fetch, forward or backward whose parent can still be changed
//   leader    the pass whose batches are trained with
//   owed      a batch that was fetched before a validation and has its step behind it
//   left      a batch that was fetched ahead and is not trained with yet, when a loader has no more
//   peek      a pass that fetched one batch and did nothing with it
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/hook/evidence.h"
#include "engine/hook/leaves.h"
#include "engine/hook/pass.h"

namespace sonde::hook {

// What is to be opened, closed or relabelled.
enum class Move : std::uint8_t {
  kStay,                // nothing: it belongs where it is
  kStayInCheck,         // it is a part of the validation of a pass
  kStayInLook,          // it is certain to be a part of the validation without a loader
  kTrainCheck,          // the validation of a pass is training
  kLeaveCheck,          // the validation of a pass ends before the leaf `first`
  kLeaveUsedCheck,      // the same, and the pass that fetched last had it
  kPauseChecks,         // validations whose iterators live end here
  kOpenOwedStep,        // the step of a batch that waited begins
  kTurnIntoCheck,       // the step of `fetched` is a validation, as this forward shows
  kTurnIntoUnused,      // the same, as nothing was trained with its batch
  kTurnLastIntoUnused,  // the part of the step on the batch that was fetched last is a validation
  kTurnIntoLook,        // the step is a validation without a loader
  kTurnRestIntoLook,    // the same, without the fetches that it began with
  kMakeRoomForCheck,    // the step ends for a validation, or begins behind it
  kOpenLook,            // a validation without a loader begins
  kLeaveLook,           // the validation without a loader ends before the leaf `first`
  kLeaveUsedLook,       // the same, and the backward went through it
  kLookFromLoads,       // a validation begins, with the fetches before it
  kLookFromRollout,     // a validation begins, with the forwards before it
  kStepFromLoads,       // a step begins, with the fetches before it
  kEndStepForLook,      // the step ends, and a validation without a loader begins
  kEndStepBelowScope,   // the same, below a scope that the program has opened meanwhile
  kCarveCheck,          // the step ended before the leaves, which were a validation
  kCarveLongCheck,      // the same, and that goes on
  kNextLeft,            // a step on the next of the batches that are left, or the end of the epoch
  kNextLeftWithLeaves,  // the same, and it began among the leaves
  kNextIteration,       // the next step begins
  kBeginWithLeaves,     // a step begins, with the leaves that are certain to be a part of it
  kBeginBehindLeaves,   // the next step began among the leaves
  kSplitIteration,      // the step begins at the leaf `first`; before it was a validation
  kMarkEvaluation,      // nothing trains with the batch of `fetched`, as far as is known
};
inline constexpr std::size_t kMoves = std::size_t(Move::kMarkEvaluation) + 1;

// What is to be asked when the move is made.
enum class Question : std::uint8_t {
  kNothing,         // the verdict is the last
  kValidation,      // is a validation under way, and is this a part of it? The first question.
  kOwedStep,        // does a batch wait for its step?
  kStep,            // is a step under way, and is this a part of it?
  kStepBehindRoom,  // the same, when room was made for a validation
  kLoader,          // are batches left of a loader that has no more?
  kWithLoader,      // where does it belong in a loop over a loader?
  kWithoutLoader,   // where does it belong in a loop without one?
};

struct Verdict {
  Move move = Move::kStay;
  Question next = Question::kNothing;
  std::size_t first = 0;  // the leaf that the move is about
  bool loads = false;     // the fetches among the leaves are a part of what begins
  bool pend = false;      // what begins is not certain of its place,
  bool watch = false;     // autograd is asked whether a backward goes through it,
  bool decide = false;    // and this backward is the one
  // What else follows, in this order.
  bool promote = false;  // the pass that opened the step may get an epoch
  bool prove = false;    // the batches of the step are trained with
  bool settle = false;   // the leaves stay where they are
};

// -- what runs (judge_forward.cpp, judge_training.cpp) --

Reading read_forward(const Forward& forward, bool trains_in_eval) noexcept;
Verdict judge_forward(const Evidence& seen, Question from) noexcept;
Verdict judge_backward(const Evidence& seen, Question from) noexcept;
// Autograd has told which forwards the backward went through.
Verdict judge_graph(const Evidence& seen) noexcept;
struct OptimizerCall {
  const void* optimizer = nullptr;  // only compared
  bool closure = false;             // which runs the model itself
};
Verdict judge_optimizer(const Evidence& seen, const OptimizerCall& call, Question from) noexcept;
// A validation of a pass is open and turns out to be training.
Verdict judge_trained_check(const Evidence& seen) noexcept;
// What the leaves turn out to be: a fetch of `next` ends the stretch; null: something else does.
Verdict judge_stretch(const Evidence& seen, const PassEvidence* next) noexcept;

// Rule 4: the loader has no more, and the step on one of its batches is done. May another batch be
// left, for what runs now?
bool may_be_on_left(const Evidence& seen) noexcept;
// Where training begins among the leaves; size(): nothing trains. `sure`: forwards with gradients
// off at the front are an evaluation's.
std::size_t first_trained(const Leaves& leaves, bool bare, bool sure = true) noexcept;
// A pass in an epoch without a loader, or behind one whose last batches are left, was taken for a
// look. If its batch is trained with while its iterator lives, it is a loop by itself.
bool can_promote(const Evidence& seen) noexcept;

// -- what is fetched (judge_fetch.cpp) --

// Does a pass that begins with this fetch look like a validation?
bool looks_like_validation(Hint hint, bool trains_in_eval, bool loader_trained) noexcept;
// Was the pass that fetched once only a peek, as another pass over its loader begins?
bool was_peek(const PassEvidence& peeked, const PassEvidence& next) noexcept;
// A validation is open, and a pass begins that looks like another one: is the first over?
bool ends_check(const PassEvidence& check, Hint hint) noexcept;
// Does the batch of what was taken for a validation wait to be trained with while `next` fetches?
bool waits_for_training(const PassEvidence& check, const PassEvidence& next) noexcept;

struct Succession {
  const PassEvidence& outer;
  const PassEvidence& next;
  bool next_evaluates = false;
  bool outer_open = false;   // its scope
  bool outer_owed = false;   // its batch waits for its step
  bool outer_fed = false;    // `next`, or a pass over the same loader, has fed it last
  bool steps_taken = false;  // steps are not ours to open
  bool done = false;         // the step has had its optimizer step
};
// Does `next` show that nothing more will come from `outer`, although its iterator lives?
bool is_over(const Succession& seen) noexcept;

enum class NewPass : std::uint8_t {
  kFeedsValidation,  // a validation that is not ours
  kOpensValidation,
  kFeedsEpoch,
  kOpensEpoch,
};
NewPass judge_new_pass(bool evaluates, bool validation_taken, bool in_epoch) noexcept;

enum class NextFetch : std::uint8_t {
  kOfValidation,       // which is open
  kResumesValidation,  // which was paused
  kOfLook,             // at a batch of a loader that is trained with
  kOfTraining,
};
NextFetch judge_next_fetch(const PassEvidence& pass, Hint hint, bool validation_taken) noexcept;

// The batches before it have been trained with, or dropped: a pass that waited for them waits no
// longer. `done`: the step has had its optimizer step.
bool stops_waiting(const PassEvidence& pass, bool done) noexcept;
// Does a pass that waited follow this one, the innermost that has a scope (null: there is none)?
bool can_follow(const PassEvidence* outer) noexcept;

enum class EpochOfFetch : std::uint8_t {
  kPresent,           // in the one that is open
  kInsteadOfCounted,  // in a new one, which takes the place of a counted one
  kItsOwn,            // in a new one: what it fed is over
};
// In which epoch is a further fetch that trains?
EpochOfFetch judge_epoch_of_fetch(const PassEvidence& pass, bool counted_innermost,
                                  bool in_epoch) noexcept;

// A step of this pass, opened by a fetch, is like the one before, so that its events can take the
// short way (plain.h).
struct PlainEvidence {
  const PassEvidence& pass;
  bool alone = false;         // no other pass is known
  bool opened_step = false;   // its fetch has, and the step is the innermost scope
  bool unclaimed = false;     // no trainer, and no loop of the program's own, claims the steps
  bool by_optimizer = false;  // optimizers end the steps
  bool nothing_else = false;  // nothing is owed, left, or open besides
};
bool is_plain(const PlainEvidence& seen) noexcept;

// -- what ends (judge_end.cpp) --

enum class NoMore : std::uint8_t {
  kLeftovers,   // batches are left to train with
  kNoneOpened,  // there was nothing for the scope that its last fetch has opened
  kOver,
};
// A loader has no more. `left`: batches that no finished step was on.
NoMore judge_no_more(const PassEvidence& pass, std::uint32_t left, bool scope_open) noexcept;

enum class Ending : std::uint8_t { kPeek, kEpoch, kOther };
Ending judge_ending(const PassEvidence& pass) noexcept;

// A loop was left right behind a fetch (rule 3): is the step that the fetch opened none?
struct LastFetch {
  const PassEvidence& pass;
  bool scope_open = false;      // of the pass
  bool opened_step = false;     // its fetch has opened the step
  bool step_innermost = false;  // that is open, and nothing is open inside it
  bool step_proven = false;     // it has had a backward or an optimizer step
  bool step_certain = false;    // a span is certain to be in it
  bool only_fetches = false;    // all leaves are fetches, and lie in it
  bool untouched = false;       // nothing else was recorded
};
bool fetched_for_nothing(const LastFetch& seen) noexcept;

// A scope of the program's has closed a counted epoch after so many steps. Is it around every
// single iteration, so that no epoch belongs in it? `held_full`: a full epoch was in the same
// scope.
bool wraps_one_iteration(std::int64_t steps, bool held_full) noexcept;

// The session ends, and no event has ended the loop: is it over?
struct LoopEnd {
  const PassEvidence* fetched = nullptr;  // its fetch opened the step
  bool claimed = false;                   // a trainer, or the program, opens the steps
  bool step_open = false;
  bool step_done = false;    // it has had its optimizer step
  bool step_stands = false;  // nothing is open inside it, and no exception passed through it
};
bool is_loop_over(const LoopEnd& seen) noexcept;

// A trainer begins: is this pass (null: there is none) over, although its iterator lives?
bool ends_for_trainer(const PassEvidence* pass) noexcept;

// The iterator that fetched the next batches is gone: is nothing left of the pass before it?
bool has_nothing_left(const PassEvidence& outer, bool done) noexcept;

}  // namespace sonde::hook
