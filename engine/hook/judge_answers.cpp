// Which move follows from an answer about a pass, a fetch, or a step that a trainer announces.
#include <cstdint>

#include "engine/hook/judge.h"
#include "engine/hook/verdict.h"

namespace sonde::hook {

Verdict verdict_on(NewPass found) noexcept {
  switch (found) {
    case NewPass::kFeedsValidation:
      return {.move = Move::kFeedCheck, .event = {.checks = true}};
    case NewPass::kOpensValidation:
      return {.move = Move::kOpenCheck, .event = {.checks = true}};
    case NewPass::kFeedsEpoch:
      return {.move = Move::kFeedEpoch};
    case NewPass::kOpensEpoch:
      return {.move = Move::kOpenEpoch};
  }
  return not_asked();
}

Verdict verdict_on(NextFetch found, bool trained) noexcept {
  switch (found) {
    case NextFetch::kOfValidation:
      return {.move = Move::kFetchHere, .event = {.checks = true}};
    case NextFetch::kResumesValidation:
      return {.move = Move::kResumeCheck, .event = {.checks = true}};
    case NextFetch::kOfLook:
      return {.move = Move::kFetchInLook, .event = {.checks = true}};
    case NextFetch::kOfTraining:
      // Validations whose iterators live are over.
      return {.move = trained ? Move::kPauseChecks : Move::kStay, .next = Question::kEpochOfFetch};
  }
  return not_asked();
}

Verdict verdict_on(EpochOfFetch found) noexcept {
  switch (found) {
    case EpochOfFetch::kPresent:
      return {.move = Move::kStay};
    case EpochOfFetch::kInsteadOfCounted:
      return {.move = Move::kReplaceCounted};
    case EpochOfFetch::kItsOwn:
      return {.move = Move::kReopenEpoch};
  }
  return not_asked();
}

Verdict verdict_on(StepOfFetch found) noexcept {
  switch (found) {
    case StepOfFetch::kPresent:
      return {.move = Move::kFetchHere};
    case StepOfFetch::kNext:
      return {.move = Move::kFetchInNextStep};
    case StepOfFetch::kTheirs:
      return {.move = Move::kFetchInNoStep};
  }
  return not_asked();
}

Verdict verdict_on(NoMore found) noexcept {
  switch (found) {
    case NoMore::kLeftovers:
      return {.move = Move::kKeepLeft};
    case NoMore::kEmptyScope:
      return {.move = Move::kDropEmptyScope};
    case NoMore::kOver:
      return {.move = Move::kFinishPass};
  }
  return not_asked();
}

Verdict verdict_on(Ending found) noexcept {
  switch (found) {
    case Ending::kPeek:
      return {.move = Move::kFinishPeek};
    case Ending::kEpoch:
      return {.move = Move::kFinishEpoch};
    case Ending::kOther:
      return {.move = Move::kFinishCheck};
  }
  return not_asked();
}

Verdict verdict_on(NumberedStep found, std::int64_t number) noexcept {
  switch (found) {
    case NumberedStep::kPresent:
      return {.move = Move::kRenumberStep, .about = {.number = number}};
    case NumberedStep::kNext:
      return {.move = Move::kOpenNumberedStep, .about = {.number = number}};
    case NumberedStep::kTheirs:
      return {.move = Move::kStay};
  }
  return not_asked();
}

}  // namespace sonde::hook
