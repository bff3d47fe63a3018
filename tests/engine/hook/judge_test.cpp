// The rules of docs/hooks.md, on evidence that is made up: no journal, no stack, no clock.
#include "tests/engine/hook/judge_fixture.h"

namespace sonde::hook {
namespace {

// -- rules 1 and 2: what a forward looks like, whatever is around it --

TEST_F(Judge, WhatNoOptimizerHasIsNeverAnEvaluation) {
  const Reading off = read_forward({.gradients = false, .owned = Owned::kNo}, false);
  EXPECT_FALSE(off.evaluates);
  EXPECT_TRUE(off.foreign);
  const Reading on = read_forward({.training = false, .owned = Owned::kNo}, false);
  EXPECT_FALSE(on.evaluates || on.foreign);
}

TEST_F(Judge, EvaluationModeIsAHintAndGradientsOffAreMore) {
  EXPECT_TRUE(read_forward({.training = false}, false).evaluates);
  EXPECT_FALSE(read_forward({.training = false}, false).sure);
  EXPECT_FALSE(read_forward({.training = false}, true).evaluates);
  EXPECT_TRUE(read_forward({.gradients = false}, true).sure);
}

// -- rule 2: a backward shows that something was not a validation --

TEST_F(Judge, ABackwardMakesTrainingOfAValidation) {
  pass_.evaluates = true;
  Evidence seen = nothing();
  seen.check = &pass_;
  EXPECT_EQ(judge_backward(seen, Question::kValidation).move, Move::kTrainCheck);
  seen.check = nullptr;
  seen.look_open = true;
  EXPECT_EQ(judge_backward(seen, Question::kValidation).move, Move::kLeaveLook);
}

TEST_F(Judge, WhereAForwardIsWatchedAutogradDecides) {
  add({.kind = Kind::kForward, .watched = true});
  Evidence seen = nothing();
  seen.look_open = true;
  const Verdict verdict = judge_backward(seen, Question::kValidation);
  EXPECT_EQ(verdict.move, Move::kStay);
  EXPECT_TRUE(verdict.event.decide && verdict.event.pend);
  EXPECT_FALSE(verdict.after.prove || verdict.after.settle);
}

TEST_F(Judge, ForwardsThatTheBackwardDidNotUseWereAnEvaluation) {
  const int model = 0;
  add({.module = &model, .kind = Kind::kForward, .watched = true});
  add({.module = &model, .kind = Kind::kForward, .watched = true, .used = true});
  add({.kind = Kind::kBackward});
  Evidence seen = in_step_of(nothing(), nullptr);
  seen.untouched = true;
  const Verdict verdict = judge_graph(seen);
  EXPECT_EQ(verdict.move, Move::kSplitIteration);
  EXPECT_EQ(verdict.about.first, 1u);
  EXPECT_TRUE(verdict.after.prove && verdict.after.settle);
  // Something else was recorded between the leaves: they cannot be moved.
  seen.untouched = false;
  EXPECT_EQ(judge_graph(seen).move, Move::kStay);
}

// -- rule 3: with a loader --

TEST_F(Judge, WhatRunsInAStepOfALoaderThatTrainsIsItsOwn) {
  pass_.trained = true;
  const Verdict verdict = first(in_step_of(forward(), &pass_));
  EXPECT_EQ(verdict.move, Move::kStay);
  EXPECT_FALSE(verdict.event.pend);
  EXPECT_TRUE(verdict.after.settle);
}

TEST_F(Judge, GradientsOffOnAFreshBatchMakeAValidationOfIt) {
  load(pass_);
  const Evidence seen = in_step_of(forward(false, false), &pass_);
  EXPECT_EQ(first(seen).move, Move::kTurnIntoCheck);
  // The loader was trained with before: a backward will tell.
  Evidence known = seen;
  known.loader_trained = true;
  EXPECT_EQ(first(known).move, Move::kStay);
  EXPECT_TRUE(first(known).event.pend);
}

TEST_F(Judge, AnEvaluationBeforeTheStepMakesRoomAndOneAfterItEndsTheStep) {
  pass_.trained = true;
  Evidence before = in_step_of(forward(false, false), &pass_);
  EXPECT_EQ(first(before).move, Move::kMakeRoomForCheck);
  EXPECT_EQ(first(before).next, Question::kStepAfterRoom);
  // In training mode the forward is a part of the step.
  EXPECT_EQ(first(in_step_of(forward(false, true), &pass_)).move, Move::kStay);
  // Room was made: the step is gone.
  before.step_open = false;
  EXPECT_EQ(judge_forward(before, Question::kStepAfterRoom).move, Move::kOpenLook);

  learn_cycle(&optimizer_);
  const Evidence after = in_step_of(forward(false, true), &pass_, true);
  EXPECT_EQ(first(after).move, Move::kEndStepForLook);
}

TEST_F(Judge, BetweenTwoOptimizersAnEvaluationWaits) {
  pass_.trained = true;
  for (int i = 0; i < 2; ++i) {
    cycle_.begin();
    cycle_.note(&optimizer_);
    cycle_.note(&second_);
  }
  cycle_.begin();
  cycle_.note(&optimizer_);
  const Verdict verdict = first(in_step_of(forward(false), &pass_, true));
  EXPECT_EQ(verdict.move, Move::kStay);
  EXPECT_TRUE(verdict.event.pend);
}

// -- rule 4: fetching ahead --

TEST_F(Judge, OfBatchesThatAreLeftTheLastEndsTheEpoch) {
  pass_.trained = pass_.fetch.drained = true;
  pass_.fetch.left = 2;
  learn_cycle(&optimizer_);
  Evidence seen = in_step_of(forward(), &pass_, true);
  EXPECT_EQ(first(seen).move, Move::kNextLeft);
  EXPECT_EQ(first(seen).next, Question::kWithLoader);
  pass_.fetch.left = 1;
  EXPECT_EQ(first(seen).next, Question::kWithoutLoader);
  seen.owed = &pass_;
  EXPECT_EQ(judge_forward(seen, Question::kLoader).move, Move::kStay);
}

TEST_F(Judge, ALoaderThatHasNoMoreMayHaveBatchesLeft) {
  pass_.role = Role::kOwner;
  EXPECT_EQ(judge_no_more(pass_, 1, true), NoMore::kLeftovers);
  EXPECT_EQ(judge_no_more(pass_, 0, true), NoMore::kOver);
  EXPECT_EQ(judge_no_more(pass_, 1, false), NoMore::kOver);
  EXPECT_EQ(judge_no_more(pass_, PassEvidence::kFurthestAhead + 1, true), NoMore::kOver);
}

// -- rule 5: without a loader --

TEST_F(Judge, TheLeadingOptimizerBeginsTheNextStep) {
  learn_cycle(&optimizer_);
  Evidence seen = in_step_of(nothing(), nullptr, true);
  const auto asked = [&](const void* optimizer) {
    return judge_optimizer(seen, {.optimizer = optimizer}, Question::kValidation).move;
  };
  EXPECT_EQ(asked(&optimizer_), Move::kNextIteration);
  EXPECT_EQ(asked(&second_), Move::kStay);
  add({.kind = Kind::kForward});
  EXPECT_EQ(asked(&optimizer_), Move::kBeginAmongLeaves);
  seen.step_open = false;
  EXPECT_EQ(asked(&optimizer_), Move::kBeginWithLeaves);
}

TEST_F(Judge, AfterAWholeIterationAForwardBeginsTheNext) {
  learn_cycle(&optimizer_);
  EXPECT_EQ(first(in_step_of(forward(), nullptr, true)).move, Move::kNextIteration);
  EXPECT_EQ(first(in_step_of(forward(false), nullptr, true)).move, Move::kEndStepForLook);
  // One step does not show what an iteration is.
  cycle_.reset();
  cycle_.note(&optimizer_);
  const Verdict unknown = first(in_step_of(forward(), nullptr, true));
  EXPECT_EQ(unknown.move, Move::kStay);
  EXPECT_TRUE(unknown.event.pend);
}

TEST_F(Judge, AStretchOfForwardsAfterTheStepWasAValidation) {
  add({.kind = Kind::kForward, .evaluates = true, .sure = true});
  EXPECT_EQ(judge_stretch(in_step_of(nothing(), nullptr, true), nullptr).move, Move::kCarveLook);
  // No backward came at all.
  EXPECT_EQ(judge_stretch(in_step_of(nothing(), nullptr), nullptr).move, Move::kTurnIntoLook);
  add({.kind = Kind::kBackward});
  EXPECT_EQ(judge_stretch(in_step_of(nothing(), nullptr), nullptr).move, Move::kStay);
}

// -- rule 6: a peek --

TEST_F(Judge, OneBatchAndNothingDoneWithItIsAPeek) {
  pass_.fetch.count = 1;
  EXPECT_EQ(judge_ending(pass_), Ending::kPeek);
  pass_.batches.ever_used = true;
  EXPECT_EQ(judge_ending(pass_), Ending::kEpoch);
  pass_.evaluates = true;
  EXPECT_EQ(judge_ending(pass_), Ending::kOther);
  // A pass was a peek only if its loader begins anew after it, and not in zip(loader, loader).
  other_.begun.made_at = 3;
  pass_.begun.first_at = 2;
  EXPECT_TRUE(was_peek(pass_, other_));
  other_.begun.made_at = 2;
  EXPECT_FALSE(was_peek(pass_, other_));
}

// -- rules 7 and 8: a second loader, and levels that others have --

TEST_F(Judge, APassFeedsTheEpochThatIsThere) {
  EXPECT_EQ(judge_new_pass(false, false, false), NewPass::kOpensEpoch);
  EXPECT_EQ(judge_new_pass(false, false, true), NewPass::kFeedsEpoch);
  EXPECT_EQ(judge_new_pass(true, false, true), NewPass::kOpensValidation);
  EXPECT_EQ(judge_new_pass(true, true, true), NewPass::kFeedsValidation);
}

TEST_F(Judge, WhatOthersHaveIsNotOpened) {
  Evidence seen = forward();
  seen.knows_training = true;
  EXPECT_EQ(first(seen).move, Move::kBeginWithLeaves);
  seen.taken.step = true;
  EXPECT_EQ(first(seen).move, Move::kStay);
  EXPECT_TRUE(first(seen).after.settle);
  Evidence off = forward(false);
  off.knows_training = true;
  EXPECT_EQ(first(off).move, Move::kLookFromLoads);
  off.taken.validation = true;
  EXPECT_EQ(first(off).move, Move::kStay);
}

TEST_F(Judge, APassThatAnotherHasFedIsOver) {
  const auto over = [&](bool fed, bool evaluates) {
    return is_over({.outer = pass_,
                    .next = other_,
                    .next_evaluates = evaluates,
                    .outer_open = true,
                    .outer_fed = fed});
  };
  pass_.source = &pass_;
  EXPECT_FALSE(over(false, false));
  EXPECT_FALSE(over(false, true));
  EXPECT_TRUE(over(true, false));
  pass_.fetch.failed = true;
  EXPECT_TRUE(over(false, false));
  EXPECT_FALSE(over(false, true));
}

// -- rule 9: code belongs to what it follows --

TEST_F(Judge, ABackwardAfterTheOptimizerStepIsThatSteps) {
  pass_.trained = true;
  const Verdict verdict =
      judge_backward(in_step_of(nothing(), &pass_, true), Question::kValidation);
  EXPECT_EQ(verdict.move, Move::kStay);
  EXPECT_TRUE(verdict.after.prove && verdict.after.settle);
}

// What a move that only prepares another one does to the evidence.
void clear(Evidence& seen, Move move) {
  if (move == Move::kTrainCheck || move == Move::kLeaveCheck || move == Move::kPauseChecks)
    seen.check = nullptr;
  if (move == Move::kLeaveLook) seen.look_open = false;
  if (move == Move::kMakeRoomForCheck) seen.step_open = false;
}

TEST_F(Judge, JudgingEndsAlsoWhereAStepThatIsOwedCannotBegin) {
  pass_.evaluates = pass_.batches.sure = pass_.fetch.off = true;
  other_.trained = other_.fetch.drained = true;
  for (unsigned bits = 0; bits < 512; ++bits) {
    const auto is = [&](unsigned bit) { return (bits >> bit & 1) != 0; };
    Evidence seen = forward(is(0), is(1));
    if (is(2)) seen.check = &pass_;
    if (is(3)) seen.owed = &other_;
    if (is(4)) seen.leader = seen.fetched = seen.last = &other_;
    seen.look_open = is(5);
    seen.step_open = seen.step_innermost = is(6);
    seen.done = is(7);
    seen.knows_training = is(8);
    Verdict verdict{.next = Question::kValidation};
    int asked = 0;
    for (; verdict.next != Question::kNothing && asked < 6; ++asked) {
      verdict = judge_forward(seen, verdict.next);
      clear(seen, verdict.move);
    }
    EXPECT_EQ(verdict.next, Question::kNothing) << bits;
  }
}

TEST_F(Judge, APlainStepIsAloneAndSure) {
  pass_.trained = pass_.batches.ever_used = pass_.fetch.opened_step = true;
  pass_.role = Role::kOwner;
  const PlainEvidence plain{.pass = pass_,
                            .alone = true,
                            .opened_step = true,
                            .unclaimed = true,
                            .by_optimizer = true,
                            .nothing_else = true};
  EXPECT_TRUE(is_plain(plain));
  for (bool* against :
       {&pass_.fetch.drained, &pass_.evaluates, &pass_.relation.waits, &pass_.relation.orphan}) {
    *against = true;
    EXPECT_FALSE(is_plain(plain));
    *against = false;
  }
}

}  // namespace
}  // namespace sonde::hook
