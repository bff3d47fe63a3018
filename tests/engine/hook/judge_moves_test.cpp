// Moves that judge_test.cpp does not name, and what the ends of passes and loops show.
#include "tests/engine/hook/judge_fixture.h"

namespace sonde::hook {
namespace {

class JudgeMoves : public Judge {
 protected:
  void fill(Leaf leaf) {
    while (!leaves_.full()) add(leaf);
  }
  // The validation of a pass is open.
  Evidence in_check(Evidence seen) {
    pass_.evaluates = true;
    seen.check = seen.last = &pass_;
    return seen;
  }
};

// -- the validation of a pass --

TEST_F(JudgeMoves, AForwardInAValidationStaysThere) {
  const Verdict verdict = first(in_check(forward()));
  EXPECT_EQ(verdict.move, Move::kStayInCheck);
  EXPECT_TRUE(verdict.event.pend && verdict.event.watch);
  EXPECT_FALSE(first(in_check(forward(false))).event.watch);
}

TEST_F(JudgeMoves, GradientsThatAreOnAgainEndAValidation) {
  pass_.batches.sure = pass_.fetch.off = true;
  const Verdict verdict = first(in_check(forward()));
  EXPECT_EQ(verdict.move, Move::kPauseChecks);
  EXPECT_EQ(verdict.next, Question::kOwedStep);
}

TEST_F(JudgeMoves, ForwardsOfATeacherAtTheEndOfAValidationAreTheSteps) {
  pass_.batches.sure = pass_.fetch.off = true;
  add({.evaluates = true, .sure = true});
  add({.foreign = true});
  const Verdict verdict = first(in_check(forward()));
  EXPECT_EQ(verdict.move, Move::kLeaveCheck);
  EXPECT_EQ(verdict.about.first, 1u);
}

TEST_F(JudgeMoves, ABatchThatWasLookedAtIsTrainedWith) {
  load(pass_);
  add({.evaluates = true, .sure = true});
  pass_.batches.sure = pass_.fetch.drained = true;
  EXPECT_EQ(first(in_check(forward())).move, Move::kTrainCheck);
}

TEST_F(JudgeMoves, WhatRanWithGradientsOffStaysAValidation) {
  pass_.fetch.off = true;
  add({.evaluates = true, .sure = true});
  add({});
  const Evidence seen = in_check(nothing());
  for (const Verdict& verdict :
       {judge_trained_check(seen), judge_backward(seen, Question::kValidation),
        judge_optimizer(seen, {.optimizer = &optimizer_}, Question::kValidation)}) {
    EXPECT_EQ(verdict.move, Move::kLeaveCheck);
    EXPECT_EQ(verdict.about.first, 1u);
  }
  pass_.fetch.off = false;
  EXPECT_EQ(judge_trained_check(seen).move, Move::kTrainCheck);
}

TEST_F(JudgeMoves, AValidationOnTopOfABatchIsLeftWhereTheBackwardBegan) {
  const int model = 0;
  load(pass_);
  load(other_);
  add({.module = &model, .watched = true});
  add({.module = &model, .watched = true, .used = true});
  add({.kind = Kind::kBackward});
  Evidence seen = in_step_of(nothing(), &pass_);
  seen.last = &other_;
  seen.untouched = true;
  const Verdict verdict = judge_graph(seen);
  EXPECT_EQ(verdict.move, Move::kLeaveUsedCheck);
  EXPECT_EQ(verdict.about.first, 3u);
}

TEST_F(JudgeMoves, ABackwardThroughNothingOfTheBatchMarksItAsEvaluated) {
  load(pass_);
  add({.watched = true});
  add({.kind = Kind::kBackward});
  EXPECT_EQ(judge_graph(in_step_of(nothing(), &pass_)).move, Move::kMarkEvaluation);
}

// -- a batch that waits for its step --

TEST_F(JudgeMoves, ABatchThatWaitedHasItsStepAfterTheValidation) {
  Evidence seen = forward();
  seen.owed = &pass_;
  EXPECT_EQ(first(seen).move, Move::kOpenOwedStep);
  EXPECT_EQ(first(seen).next, Question::kStep);
  Evidence evaluating = forward(false);
  evaluating.owed = &pass_;
  EXPECT_NE(first(evaluating).move, Move::kOpenOwedStep);
  const Verdict verdict = judge_optimizer(seen, {.optimizer = &optimizer_}, Question::kValidation);
  EXPECT_EQ(verdict.move, Move::kOpenOwedStep);
  EXPECT_EQ(verdict.next, Question::kLoader);
}

TEST_F(JudgeMoves, AnOptimizerOrABackwardMayBeOnTheNextBatchThatIsLeft) {
  pass_.trained = pass_.fetch.drained = true;
  pass_.fetch.left = 2;
  Evidence seen = in_step_of(nothing(), &pass_, true);
  EXPECT_EQ(judge_backward(seen, Question::kValidation).move, Move::kStay);
  learn_cycle(&optimizer_);
  EXPECT_EQ(judge_backward(seen, Question::kValidation).move, Move::kNextLeft);
  const Verdict verdict = judge_optimizer(seen, {.optimizer = &optimizer_}, Question::kValidation);
  EXPECT_EQ(verdict.move, Move::kNextLeftWithLeaves);
  EXPECT_EQ(verdict.next, Question::kStep);
  // A forward came first: that one was on the next batch, and the backward follows it.
  add({});
  EXPECT_EQ(judge_backward(seen, Question::kValidation).move, Move::kStay);
  // The step on the batch that waited is still to come.
  seen.owed = &pass_;
  EXPECT_FALSE(may_be_on_left(seen));
}

TEST_F(JudgeMoves, AStepBeginsWithTheFetchesBeforeIt) {
  pass_.trained = true;
  load(pass_);
  Evidence seen = forward();
  seen.leader = seen.last = &pass_;
  seen.stands_free = true;
  const Verdict verdict = first(seen);
  EXPECT_EQ(verdict.move, Move::kStepFromLoads);
  EXPECT_TRUE(verdict.about.loads && verdict.event.pend && verdict.after.settle);
  seen.stands_free = false;
  EXPECT_FALSE(first(seen).about.loads);
}

// -- a step in which nothing was trained --

TEST_F(JudgeMoves, AStepWithoutABackwardWasAValidation) {
  load(pass_);
  add({});
  Evidence seen = in_step_of(nothing(), &pass_);
  EXPECT_EQ(judge_stretch(seen, nullptr).move, Move::kTurnIntoUnused);
  pass_.fetch.failed = true;
  EXPECT_EQ(judge_stretch(seen, nullptr).move, Move::kStay);
  pass_.fetch.failed = false;
  pass_.trained = true;
  EXPECT_EQ(judge_stretch(seen, nullptr).move, Move::kTurnRestIntoLook);
  // Another pass has fetched a batch since.
  load(other_);
  seen.last = &other_;
  EXPECT_EQ(judge_stretch(seen, nullptr).move, Move::kTurnLastIntoUnused);
}

// -- a validation without a loader --

TEST_F(JudgeMoves, InALookGradientsOffAreCertain) {
  Evidence seen = forward(false);
  seen.look_open = true;
  EXPECT_EQ(first(seen).move, Move::kStayInLook);
  EXPECT_FALSE(first(seen).event.pend);
  Evidence hinted = forward(true, false);
  hinted.look_open = true;
  EXPECT_EQ(first(hinted).move, Move::kStay);
  EXPECT_TRUE(first(hinted).event.pend);
  Evidence trains = forward();
  trains.look_open = true;
  EXPECT_EQ(first(trains).move, Move::kLeaveLook);
  EXPECT_EQ(first(trains).next, Question::kOwedStep);
}

TEST_F(JudgeMoves, ALookThatTheBackwardWentThroughIsLeftAsUsed) {
  Leaf& leaf = add({.watched = true, .used = true});
  Evidence seen = nothing();
  seen.look_open = true;
  EXPECT_EQ(judge_graph(seen).move, Move::kLeaveUsedLook);
  leaf.used = false;
  EXPECT_EQ(judge_graph(seen).move, Move::kLeaveLook);
}

TEST_F(JudgeMoves, AScopeAfterTheStepEndsItForALook) {
  Evidence seen = in_step_of(forward(false), nullptr, true);
  seen.scope_begun = true;
  EXPECT_EQ(first(seen).move, Move::kEndStepBelowScope);
  Evidence trains = in_step_of(forward(), nullptr, true);
  trains.scope_begun = true;
  EXPECT_EQ(first(trains).move, Move::kNextIteration);
}

TEST_F(JudgeMoves, SoManyForwardsBeforeABackwardAreARollout) {
  fill({});
  Evidence seen = forward();
  EXPECT_EQ(first(seen).move, Move::kLookFromRollout);
  // The program has opened a scope after the leaves: they cannot be moved.
  seen.none_opened = false;
  EXPECT_EQ(first(seen).move, Move::kStay);
}

TEST_F(JudgeMoves, SoManyForwardsAfterAStepAreAValidation) {
  fill({.evaluates = true, .sure = true});
  EXPECT_EQ(first(in_step_of(forward(false), nullptr, true)).move, Move::kCarveLongLook);
  pass_.trained = true;
  EXPECT_EQ(first(in_step_of(forward(false), &pass_, true)).move, Move::kCarveLongLook);
}

TEST_F(JudgeMoves, SoManyLeavesWithABackwardAreTheNextStep) {
  add({.kind = Kind::kBackward});
  while (leaves_.size() + 1 < Leaves::kMost) add({});
  add({.kind = Kind::kBackward});
  const Verdict verdict = first(in_step_of(forward(), nullptr, true));
  EXPECT_EQ(verdict.move, Move::kBeginAmongLeaves);
  EXPECT_TRUE(verdict.after.prove && verdict.after.settle);
}

// -- further fetches --

TEST_F(JudgeMoves, AFurtherFetchIsInTheEpochThatIsOpen) {
  EXPECT_EQ(judge_epoch_of_fetch(pass_, false, true), EpochOfFetch::kPresent);
  EXPECT_EQ(judge_epoch_of_fetch(pass_, true, true), EpochOfFetch::kPresent);
  EXPECT_EQ(judge_epoch_of_fetch(pass_, false, false), EpochOfFetch::kItsOwn);
  pass_.trained = true;
  EXPECT_EQ(judge_epoch_of_fetch(pass_, true, true), EpochOfFetch::kInsteadOfCounted);
  // A scope of the program has closed the epoch of the pass: the pass gets no other.
  pass_.relation.orphan = true;
  EXPECT_EQ(judge_epoch_of_fetch(pass_, false, false), EpochOfFetch::kPresent);
}

TEST_F(JudgeMoves, APassWaitsUntilTheBatchesBeforeItAreDone) {
  EXPECT_FALSE(stops_waiting(pass_, true));
  pass_.relation.waits = pass_.batches.used = true;
  EXPECT_FALSE(stops_waiting(pass_, false));
  EXPECT_TRUE(stops_waiting(pass_, true));
  pass_.batches.used = false;
  EXPECT_TRUE(stops_waiting(pass_, false));
  EXPECT_TRUE(can_follow(nullptr));
  EXPECT_FALSE(can_follow(&other_));
  other_.fetch.drained = true;
  EXPECT_TRUE(can_follow(&other_));
}

// -- ends --

TEST_F(JudgeMoves, ALoopLeftAfterAFetchHasOneStepLess) {
  pass_.role = Role::kOwner;
  pass_.batches.ever_used = true;
  const LastFetch fetch{.pass = pass_,
                        .scope_open = true,
                        .opened_step = true,
                        .step_innermost = true,
                        .only_fetches = true,
                        .untouched = true};
  EXPECT_TRUE(fetched_for_nothing(fetch));
  for (bool LastFetch::* needed :
       {&LastFetch::scope_open, &LastFetch::opened_step, &LastFetch::step_innermost,
        &LastFetch::only_fetches, &LastFetch::untouched}) {
    LastFetch without = fetch;
    without.*needed = false;
    EXPECT_FALSE(fetched_for_nothing(without));
  }
  for (bool LastFetch::* against : {&LastFetch::step_proven, &LastFetch::step_certain}) {
    LastFetch with = fetch;
    with.*against = true;
    EXPECT_FALSE(fetched_for_nothing(with));
  }
  pass_.evaluates = true;
  EXPECT_FALSE(fetched_for_nothing(fetch));
}

TEST_F(JudgeMoves, AScopeAroundOneIterationIsNoPlaceForAnEpoch) {
  EXPECT_TRUE(wraps_one_iteration(1, false));
  EXPECT_FALSE(wraps_one_iteration(2, false));
  EXPECT_FALSE(wraps_one_iteration(1, true));
}

TEST_F(JudgeMoves, ALoopIsOverWithItsLastStep) {
  EXPECT_TRUE(is_loop_over({}));
  EXPECT_FALSE(is_loop_over({.claimed = true}));
  EXPECT_FALSE(is_loop_over({.step_open = true, .step_stands = true}));
  EXPECT_FALSE(is_loop_over({.step_open = true, .step_done = true}));
  EXPECT_TRUE(is_loop_over({.step_open = true, .step_done = true, .step_stands = true}));
  // The last batch of the pass was fetched, and nothing was done with any.
  pass_.fetch.drained = true;
  EXPECT_TRUE(is_loop_over({.fetched = &pass_, .step_open = true, .step_stands = true}));
  pass_.batches.ever_used = true;
  EXPECT_FALSE(is_loop_over({.fetched = &pass_, .step_open = true, .step_stands = true}));
}

TEST_F(JudgeMoves, APassGetsTheEpochThatItsStepLiesDirectlyIn) {
  pass_.role = Role::kMember;
  Evidence seen = in_step_of(nothing(), &pass_);
  EXPECT_FALSE(can_promote(seen)) << "a scope of the program is between the step and the epoch";
  seen.step_in_counted = true;
  EXPECT_TRUE(can_promote(seen));
  seen.outer = &other_;
  other_.fetch.drained = true;
  EXPECT_FALSE(can_promote(seen));
  seen.step_in_outer = true;
  EXPECT_TRUE(can_promote(seen));
  other_.fetch.drained = false;
  EXPECT_FALSE(can_promote(seen)) << "more will come from the pass that has the epoch";
}

TEST_F(JudgeMoves, ATrainerEndsPassesThatFailedOrHaveNoMore) {
  EXPECT_FALSE(ends_for_trainer(nullptr));
  EXPECT_FALSE(ends_for_trainer(&pass_));
  pass_.fetch.failed = true;
  other_.fetch.drained = true;
  EXPECT_TRUE(ends_for_trainer(&pass_));
  EXPECT_TRUE(ends_for_trainer(&other_));
}

TEST_F(JudgeMoves, AfterTheLastStepNothingIsLeft) {
  pass_.fetch.drained = true;
  pass_.fetch.left = 1;
  EXPECT_TRUE(has_nothing_left(pass_, true));
  EXPECT_FALSE(has_nothing_left(pass_, false));
  pass_.fetch.left = 2;
  EXPECT_FALSE(has_nothing_left(pass_, true));
}

}  // namespace
}  // namespace sonde::hook
