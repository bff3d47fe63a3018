// What becomes of the step that is open, who feeds it, and what others open.
#include <cstdint>

#include "tests/engine/hook/judge_fixture.h"

namespace sonde::hook {
namespace {

class JudgeStep : public Judge {};

// -- passes --

TEST_F(JudgeStep, APassLeadsThatTrainsOrOwnsTheEpoch) {
  EXPECT_FALSE(may_lead(pass_));
  pass_.role = Role::kOwner;
  EXPECT_TRUE(may_lead(pass_));
  pass_.evaluates = true;
  EXPECT_FALSE(may_lead(pass_));
  pass_.trained = true;
  EXPECT_TRUE(may_lead(pass_));
  pass_.role = Role::kMember;
  EXPECT_TRUE(may_lead(pass_));
  pass_.relation.parted = true;
  EXPECT_FALSE(may_lead(pass_));
}

TEST_F(JudgeStep, SeveralFetchesBeforeTheFirstUseWereMadeAhead) {
  EXPECT_EQ(count_ahead(0), 0u);
  EXPECT_EQ(count_ahead(1), 0u);
  EXPECT_EQ(count_ahead(2), 1u);
  EXPECT_EQ(count_ahead(PassEvidence::kFurthestAhead), PassEvidence::kFurthestAhead - 1);
  EXPECT_EQ(count_ahead(PassEvidence::kFurthestAhead + 1), 0u);
}

TEST_F(JudgeStep, BatchesWithoutAFinishedStepAreLeft) {
  pass_.batches.idle = 4;  // three batches, and the fetch that gave none
  EXPECT_EQ(judge_unfinished(pass_).left, 3u);
  pass_.batches.ever_used = true;
  EXPECT_EQ(judge_unfinished(pass_).left, 0u);
  // In groups of four, the last three are one step.
  pass_.batches.group = 4;
  EXPECT_EQ(judge_unfinished(pass_).left, 3u);
  EXPECT_EQ(judge_unfinished(pass_).per_step, 3u);
  pass_.batches.group = 3;
  EXPECT_EQ(judge_unfinished(pass_).left, 0u);
  // Two ahead: after six batches, the sixth fetch opened the step on the fourth batch.
  pass_.batches.ahead = 2;
  pass_.batches.steps = 1;
  EXPECT_EQ(judge_unfinished(pass_).left, 2u);
  pass_.batches.steps = 4;
  pass_.batches.step_fetch = 6;
  pass_.fetch.count = 7;
  EXPECT_EQ(judge_unfinished(pass_).left, 3u);
}

TEST_F(JudgeStep, ABackwardProvesWhatWasFetchedForIt) {
  EXPECT_FALSE(is_proven(pass_, false, false));
  EXPECT_TRUE(is_proven(pass_, true, false));
  pass_.batches.unproven = true;
  EXPECT_TRUE(is_proven(pass_, false, false));
  EXPECT_FALSE(is_proven(pass_, false, true));
  EXPECT_TRUE(is_proven(pass_, true, true));
  pass_.evaluates = true;
  EXPECT_FALSE(is_proven(pass_, true, false));
}

// -- the levels of others --

TEST_F(JudgeStep, ScopesOfOthersTakeTheirLevels) {
  Levels found;
  add_open(found, {.sequence = 9});
  add_open(found, {.named = true, .level = Level::kStep, .ours = true, .sequence = 8});
  add_open(found, {.named = true, .level = Level::kEpoch, .ours = true, .sequence = 7});
  EXPECT_FALSE(found.epoch || found.step || found.validation);
  EXPECT_EQ(found.innermost_epoch, 7u);
  add_open(found, {.named = true, .level = Level::kEpoch, .sequence = 6});
  EXPECT_TRUE(found.epoch);
  EXPECT_EQ(found.innermost_epoch, 7u);
  add_open(found, {.named = true, .level = Level::kStep, .sequence = 5});
  EXPECT_TRUE(found.step);
  add_open(found, {.owns_validation = true});
  EXPECT_TRUE(found.validation);
}

TEST_F(JudgeStep, ClaimsTakeLevelsWithoutAScope) {
  const Levels all = add_claims({}, {.announced = 1});
  EXPECT_TRUE(all.epoch && all.step && all.validation);
  EXPECT_TRUE(add_claims({}, {.steps = 1}).step);
  EXPECT_FALSE(add_claims({}, {.steps = 1}).epoch);
  // A trainer has the steps as well, but only outside an epoch.
  EXPECT_TRUE(add_claims({}, {.trainers = 1}).epoch);
  EXPECT_TRUE(add_claims({}, {.trainers = 1}).step);
  EXPECT_FALSE(add_claims({.innermost_epoch = 3}, {.trainers = 1}).step);
}

// -- the step that is open --

TEST_F(JudgeStep, AFetchAfterTheOptimizerStepBeginsTheNextStep) {
  EXPECT_EQ(judge_step_of_fetch({}), StepOfFetch::kNext);
  EXPECT_EQ(judge_step_of_fetch({.taken = true}), StepOfFetch::kTheirs);
  EXPECT_EQ(judge_step_of_fetch({.step_open = true, .closable = true}), StepOfFetch::kPresent);
  EXPECT_EQ(judge_step_of_fetch({.step_open = true, .done = true}), StepOfFetch::kPresent);
  EXPECT_EQ(judge_step_of_fetch({.step_open = true, .done = true, .closable = true}),
            StepOfFetch::kNext);
  EXPECT_EQ(judge_step_of_fetch({.step_open = true, .closable = true, .taken = true}),
            StepOfFetch::kPresent);
}

TEST_F(JudgeStep, OnlyAStepWithNothingButItsBatchWaitsForAValidation) {
  const StepBeforeCheck fresh{.innermost = true, .only_fetches = true, .untouched = true};
  EXPECT_EQ(judge_room(fresh), Room::kStepWaits);
  StepBeforeCheck seen = fresh;
  seen.done = true;
  EXPECT_EQ(judge_room(seen), Room::kStepEnds);
  seen = fresh;
  seen.proven = true;
  EXPECT_EQ(judge_room(seen), Room::kStepGoesOn);
  for (bool StepBeforeCheck::* needed :
       {&StepBeforeCheck::innermost, &StepBeforeCheck::only_fetches, &StepBeforeCheck::untouched}) {
    seen = fresh;
    seen.*needed = false;
    EXPECT_EQ(judge_room(seen), Room::kStepGoesOn);
  }
}

TEST_F(JudgeStep, WithoutAnOptimizerABackwardEndsTheStep) {
  EXPECT_TRUE(updates_by_hand({.step_open = true}));
  EXPECT_FALSE(updates_by_hand({}));
  for (bool EndedBackward::* against :
       {&EndedBackward::announced, &EndedBackward::in_optimizer, &EndedBackward::optimizer_stepped,
        &EndedBackward::optimizer_owns}) {
    EndedBackward seen{.step_open = true};
    seen.*against = true;
    EXPECT_FALSE(updates_by_hand(seen));
  }
}

TEST_F(JudgeStep, BeforeAClosureForwardsThatNothingUsedAreOver) {
  EXPECT_EQ(judge_before_closure(leaves_, true), BeforeClosure::kMayBeUsed);
  add({.watched = true});
  EXPECT_EQ(judge_before_closure(leaves_, true), BeforeClosure::kWasLook);
  EXPECT_EQ(judge_before_closure(leaves_, false), BeforeClosure::kIsOver);
  add({.kind = Kind::kBackward});
  EXPECT_EQ(judge_before_closure(leaves_, false), BeforeClosure::kMayBeUsed);
}

TEST_F(JudgeStep, AStepBeginsAfterTheLastLeafThatIsStuck) {
  EXPECT_EQ(first_in_step(leaves_, 0), 0u);
  add({}).stuck = true;
  add({});
  EXPECT_EQ(first_in_step(leaves_, 7), 1u);
  EXPECT_EQ(first_in_step(leaves_, 6), 2u) << "the leaves are below another scope";
}

}  // namespace
}  // namespace sonde::hook
