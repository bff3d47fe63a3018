// Which move follows from each answer about a pass, a fetch, or a step that a trainer announces.
#include "tests/engine/hook/judge_fixture.h"

namespace sonde::hook {
namespace {

TEST(JudgeAnswers, ANewPassOpensOrFeedsAnEpochOrAValidation) {
  EXPECT_EQ(verdict_on(NewPass::kFeedsValidation).move, Move::kFeedCheck);
  EXPECT_EQ(verdict_on(NewPass::kOpensValidation).move, Move::kOpenCheck);
  EXPECT_EQ(verdict_on(NewPass::kFeedsEpoch).move, Move::kFeedEpoch);
  EXPECT_EQ(verdict_on(NewPass::kOpensEpoch).move, Move::kOpenEpoch);
}

TEST(JudgeAnswers, AFetchOfAValidationIsInNoStep) {
  for (const NewPass found : {NewPass::kFeedsValidation, NewPass::kOpensValidation})
    EXPECT_TRUE(verdict_on(found).event.checks);
  for (const NewPass found : {NewPass::kFeedsEpoch, NewPass::kOpensEpoch})
    EXPECT_FALSE(verdict_on(found).event.checks);
  for (const NextFetch found :
       {NextFetch::kOfValidation, NextFetch::kResumesValidation, NextFetch::kOfLook}) {
    EXPECT_TRUE(verdict_on(found, true).event.checks);
    EXPECT_EQ(verdict_on(found, true).next, Question::kNothing);
  }
  EXPECT_FALSE(verdict_on(NextFetch::kOfTraining, true).event.checks);
  EXPECT_FALSE(verdict_on(EpochOfFetch::kPresent).event.checks);
}

TEST(JudgeAnswers, AFurtherFetchStaysInItsValidationOrBeginsOne) {
  EXPECT_EQ(verdict_on(NextFetch::kOfValidation, false).move, Move::kFetchHere);
  EXPECT_EQ(verdict_on(NextFetch::kResumesValidation, false).move, Move::kResumeCheck);
  EXPECT_EQ(verdict_on(NextFetch::kOfLook, false).move, Move::kFetchInLook);
}

TEST(JudgeAnswers, AFurtherFetchOfTrainingEndsValidationsAndAsksForItsEpoch) {
  const Verdict trained = verdict_on(NextFetch::kOfTraining, true);
  EXPECT_EQ(trained.move, Move::kPauseChecks);
  EXPECT_EQ(trained.next, Question::kEpochOfFetch);
  const Verdict fresh = verdict_on(NextFetch::kOfTraining, false);
  EXPECT_EQ(fresh.move, Move::kStay);
  EXPECT_EQ(fresh.next, Question::kEpochOfFetch);
  EXPECT_EQ(verdict_on(EpochOfFetch::kPresent).move, Move::kStay);
  EXPECT_EQ(verdict_on(EpochOfFetch::kInsteadOfCounted).move, Move::kReplaceCounted);
  EXPECT_EQ(verdict_on(EpochOfFetch::kItsOwn).move, Move::kReopenEpoch);
  EXPECT_EQ(verdict_on(EpochOfFetch::kItsOwn).next, Question::kNothing);
}

TEST(JudgeAnswers, AFetchIsInAStepOrBetweenSteps) {
  EXPECT_EQ(verdict_on(StepOfFetch::kPresent).move, Move::kFetchHere);
  EXPECT_EQ(verdict_on(StepOfFetch::kNext).move, Move::kFetchInNextStep);
  EXPECT_EQ(verdict_on(StepOfFetch::kTheirs).move, Move::kFetchInNoStep);
}

TEST(JudgeAnswers, AnExhaustedLoaderEndsItsPassUnlessBatchesAreLeft) {
  EXPECT_EQ(verdict_on(NoMore::kLeftovers).move, Move::kKeepLeft);
  EXPECT_EQ(verdict_on(NoMore::kEmptyScope).move, Move::kDropEmptyScope);
  EXPECT_EQ(verdict_on(NoMore::kOver).move, Move::kFinishPass);
}

TEST(JudgeAnswers, TheScopeOfAPassEndsAsWhatItWas) {
  EXPECT_EQ(verdict_on(Ending::kPeek).move, Move::kFinishPeek);
  EXPECT_EQ(verdict_on(Ending::kEpoch).move, Move::kFinishEpoch);
  EXPECT_EQ(verdict_on(Ending::kOther).move, Move::kFinishCheck);
}

TEST(JudgeAnswers, AStepWithANumberIsTheOneThatIsOpenOrTheNextOne) {
  EXPECT_EQ(judge_numbered_step({}), NumberedStep::kNext);
  EXPECT_EQ(judge_numbered_step({.step_open = true}), NumberedStep::kPresent);
  EXPECT_EQ(judge_numbered_step({.step_open = true, .closable = true}), NumberedStep::kPresent);
  EXPECT_EQ(judge_numbered_step({.step_open = true, .done = true, .closable = true}),
            NumberedStep::kNext);
  EXPECT_EQ(judge_numbered_step({.step_open = true, .done = true}), NumberedStep::kTheirs);
  EXPECT_EQ(judge_numbered_step({.taken = true}), NumberedStep::kTheirs);
}

TEST(JudgeAnswers, AStepWithANumberGetsThatNumber) {
  EXPECT_EQ(verdict_on(NumberedStep::kPresent, 7).move, Move::kRenumberStep);
  EXPECT_EQ(verdict_on(NumberedStep::kPresent, 7).about.number, 7);
  EXPECT_EQ(verdict_on(NumberedStep::kNext, 7).move, Move::kOpenNumberedStep);
  EXPECT_EQ(verdict_on(NumberedStep::kNext, 7).about.number, 7);
  EXPECT_EQ(verdict_on(NumberedStep::kTheirs, 7).move, Move::kStay);
}

}  // namespace
}  // namespace sonde::hook
