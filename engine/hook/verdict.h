// What judge.h answers: a move, what it is about, and what is to be asked next.
//
// judge.h explains the words check, look, leaf, owed and left.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/hook/leaves.h"

namespace sonde::hook {

// What is to be opened, closed or relabelled.
enum class Move : std::uint8_t {
  kStay,                // nothing: what runs belongs where it is
  kStayInCheck,         // what runs is a part of the validation of a pass
  kStayInLook,          // what runs is certain to be a part of the validation without a loader
  kTrainCheck,          // the validation of a pass turns out to be training
  kLeaveCheck,          // the validation of a pass ends before the leaf `first`
  kLeaveUsedCheck,      // the same, for a validation of the pass that fetched last
  kPauseChecks,         // validations whose iterators live end here
  kOpenOwedStep,        // the step of a batch that waited begins
  kTurnIntoCheck,       // the step of `fetched` is a validation, as this forward shows
  kTurnIntoUnused,      // the same, because nothing was trained with its batch
  kTurnLastIntoUnused,  // the part of the step on the batch that was fetched last is a validation
  kTurnIntoLook,        // the step is a validation without a loader
  kTurnRestIntoLook,    // the same, except for the fetches that the step began with
  kMakeRoomForCheck,    // the step ends before a validation, or begins after it
  kOpenLook,            // a validation without a loader begins
  kLeaveLook,           // the validation without a loader ends before the leaf `first`
  kLeaveUsedLook,       // the same, and the backward went through forwards in it
  kLookFromLoads,       // a validation without a loader begins, with the fetches before it
  kLookFromRollout,     // a validation without a loader begins, with the forwards before it
  kStepFromLoads,       // a step begins, with the fetches before it
  kEndStepForLook,      // the step ends, and a validation without a loader begins
  kEndStepBelowScope,   // the same, where the program has opened a scope inside the step
  kCarveLook,           // the step ended before the leaves, which were a validation
  kCarveLongLook,       // the same, and the validation goes on
  kNextLeft,            // a step on the next of the batches that are left begins, or the epoch ends
  kNextLeftWithLeaves,  // the same, and the step began among the leaves
  kNextIteration,       // the next step begins
  kBeginWithLeaves,     // a step begins, with the leaves that are certain to be a part of it
  kBeginAmongLeaves,    // the next step began among the leaves
  kSplitIteration,      // the step begins at the leaf `first`; what came before was a validation
  kMarkEvaluation,      // nothing trains with the batch of `fetched`, as far as is known
  // About the pass that fetches or ends:
  kFetchHere,        // the fetch belongs where it is
  kFeedCheck,        // the pass begins in a validation that is not ours, and feeds it
  kOpenCheck,        // the pass begins, and with it a validation
  kFeedEpoch,        // the pass begins in an epoch, and feeds it
  kOpenEpoch,        // the pass begins, and with it an epoch
  kResumeCheck,      // the pass fetches again: its validation, which was paused, goes on
  kFetchInLook,      // the fetch is a part of a validation without a loader
  kReplaceCounted,   // the pass gets an epoch, which takes the place of one without a loader
  kReopenEpoch,      // the pass gets an epoch, because the one that it fed is over
  kFetchInNextStep,  // the fetch begins the next step
  kFetchInNoStep,    // the last step is over, and the next one is not ours to open
  kKeepLeft,         // the loader is exhausted, and batches are left to train with
  kDropEmptyScope,   // the loader is exhausted, and the scope of the pass was opened for nothing
  kFinishPass,       // the loader is exhausted, and the pass is over
  kFinishPeek,       // the pass is over, and was only a peek
  kFinishEpoch,      // the pass is over, and with it its epoch
  kFinishCheck,      // the pass is over, and with it its validation
  // About the step that a trainer announces:
  kRenumberStep,      // the step that is open is the one, and gets its number
  kOpenNumberedStep,  // the step begins
};
inline constexpr std::size_t kMoves = std::size_t(Move::kOpenNumberedStep) + 1;

// What is to be asked when the move is made, about the fetch, forward, backward or optimizer step
// that begins: the event.
enum class Question : std::uint8_t {
  kNothing,        // nothing: the verdict is the last
  kValidation,     // the first: is a validation under way, and does the event belong to it?
  kOwedStep,       // does a batch wait for its step?
  kStep,           // is a step under way, and does the event belong to it?
  kStepAfterRoom,  // the same, after room was made for a validation
  kLoader,         // are batches left of a loader that is exhausted?
  kWithLoader,     // where does the event belong in a loop over a loader?
  kWithoutLoader,  // where does the event belong in a loop without a loader?
  kEpochOfFetch,   // in which epoch is a fetch that belongs to training?
};

// A move may divide the leaves: those from About::first on leave the scope that it ends. These are
// its values where all of them do, and where none does.
inline constexpr std::size_t kAllLeave = 0;
inline std::size_t none_leave(const Leaves& leaves) noexcept { return leaves.size(); }

// What follows from the evidence. carry_out (moves.h) makes the move, and does what comes after it.
// If there is a next question, it is asked then, with new evidence.
struct Verdict {
  Move move = Move::kStay;
  Question next = Question::kNothing;

  // The leaves that the move is about, or the step.
  struct About {
    std::size_t first = kAllLeave;  // the first that leaves, or the first that trains
    bool loads = false;             // the fetches among them belong to the scope that begins
    std::int64_t number = -1;       // of the step
  };
  About about = {};

  // What is to become of the event that begins. Only the last verdict counts.
  struct Event {
    bool pend = false;    // it ends as a leaf: where it belongs is not certain yet
    bool watch = false;   // a forward: autograd is asked whether a backward goes through it
    bool decide = false;  // a backward: it decides about the forwards before it (judge_graph)
    bool checks = false;  // a fetch: it belongs to a validation, so it is in no step
  };
  Event event = {};

  // What else follows when the move has been made, in this order.
  struct After {
    bool promote = false;  // the pass that opened the step may get an epoch
    bool prove = false;    // the batches of the step are trained with
    bool settle = false;   // the leaves stay where they are
  };
  After after = {};
};

// The answer to a question that no verdict of this judge leads to: what runs stays where it is. It
// is counted as a swallowed error, "hooks.judge".
Verdict not_asked() noexcept;

}  // namespace sonde::hook
