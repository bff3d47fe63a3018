// The moves about a pass that fetches or ends, and about a step that a trainer announces, each made
// alone. The trees of whole loops are in the other tests.
#include "engine/hook/event.h"
#include "engine/hook/moves.h"
#include "engine/hook/names.h"
#include "engine/hook/spans.h"
#include "tests/engine/hook/training_tree.h"
#include "tests/engine/support/slots.h"

namespace sonde::hook {
namespace {

using Kind = Leaf::Kind;
using Role = Pass::Role;

class PassMoves : public TrainingTree {
 protected:
  void SetUp() override {
    TrainingTree::SetUp();
    intern_names();
    seen_.stack = &here().stack;
    seen_.tenancy = record::tenancy_of(here().stack);
    seen_.generation = here().thread.generation;
    for (Pass* pass : {&pass_, &other_}) {
      pass->begin(seen_, Hint::kNone, 0);
      pass->fetch.count = 2;  // not a peek
    }
    end_event(seen_, here());
  }
  void make(Move move, Verdict::About about = {}) {
    carry_out(seen_, here(), {.move = move, .about = about}, Moment(), &pass_);
  }
  static Pass made(const void* source) {
    record::open_gate();
    return {here(), source, base::monotonic_ns()};
  }
  // What was recorded, once everything is closed.
  std::string end() {
    finish_everything(seen_, here());
    return tree();
  }
  // The pass has begun, and has a scope.
  void own_scope(Pass& pass, bool evaluates) {
    own(seen_, here(), pass, evaluates, Moment());
    seen_.passes.known.push_back(&pass);
  }
  void open_done_step() {
    open_step(seen_, here(), -1, Moment());
    seen_.step.note_done();
  }
  // A span that is certain of its place.
  void record_span() {
    record::ScopeHandle scope = open_span(here(), {.name = names().forward}, Moment());
    seen_.parents.note(record::view_of(scope).parent());
    close_span(here().thread, scope, Moment());
  }
  void add_leaf(Kind kind) {
    seen_.leaves.add({.record = records_.add(7), .sequence = 1, .kind = kind});
  }

  testing::ProvisionalRecords records_;
  Seen seen_;
  Pass pass_ = made(this), other_ = made(&pass_);
};

// -- it begins --

TEST_F(PassMoves, FeedingAValidationOpensNothing) {
  add_leaf(Kind::kForward);
  make(Move::kFeedCheck);
  EXPECT_TRUE(pass_.role == Role::kMember && pass_.evaluates);
  EXPECT_TRUE(seen_.leaves.empty());
  EXPECT_EQ(end(), "");
}

TEST_F(PassMoves, AValidationBeginsAfterTheStepThatIsDone) {
  open_done_step();
  make(Move::kOpenCheck);
  EXPECT_TRUE(pass_.role == Role::kOwner && pass_.evaluates && !pass_.nested);
  EXPECT_EQ(end(), "step[0] validation");
}

TEST_F(PassMoves, AValidationInAnEpochIsNested) {
  own_scope(other_, false);
  make(Move::kOpenCheck);
  EXPECT_TRUE(pass_.nested);
  EXPECT_TRUE(record::is_inside(pass_.scope, other_.scope));
}

TEST_F(PassMoves, FeedingAnEpochEndsALook) {
  open_look(seen_, here(), Moment());
  make(Move::kFeedEpoch);
  EXPECT_TRUE(pass_.role == Role::kMember && pass_.nested && !pass_.evaluates);
  EXPECT_FALSE(seen_.look.is_open());
}

TEST_F(PassMoves, AnEpochBeginsAfterTheStepThatIsOpen) {
  open_done_step();
  make(Move::kOpenEpoch);
  EXPECT_TRUE(pass_.role == Role::kOwner && !pass_.evaluates);
  EXPECT_FALSE(seen_.step.is_open());
  seen_.passes.known.push_back(&pass_);
  pass_.trained = true;
  EXPECT_EQ(end(), "step[0] epoch[0]");
}

// -- it fetches again --

TEST_F(PassMoves, AFetchSettlesWhatRanBeforeItButNoFetches) {
  add_leaf(Kind::kLoad);
  make(Move::kFetchHere);
  EXPECT_EQ(seen_.leaves.size(), 1u);
  add_leaf(Kind::kForward);
  make(Move::kFetchHere);
  EXPECT_TRUE(seen_.leaves.empty());
}

TEST_F(PassMoves, AValidationThatWasPausedGoesOnAfterTheStepThatIsDone) {
  open_done_step();
  make(Move::kResumeCheck);
  EXPECT_TRUE(pass_.role == Role::kOwner && pass_.evaluates);
  EXPECT_EQ(end(), "step[0] validation");
}

TEST_F(PassMoves, AFetchMayBeginALookAfterTheStepThatIsDone) {
  open_done_step();
  make(Move::kFetchInLook);
  EXPECT_TRUE(seen_.look.is_open());
  EXPECT_EQ(pass_.role, Role::kNone);
  EXPECT_EQ(end(), "step[0] validation");
}

TEST_F(PassMoves, AnEpochTakesThePlaceOfOneWithoutALoader) {
  next_iteration(seen_, here(), Moment());
  make(Move::kReplaceCounted);
  EXPECT_FALSE(seen_.counted.is_open() || seen_.step.is_open());
  EXPECT_TRUE(pass_.role == Role::kOwner && !pass_.nested);
  pass_.trained = true;
  seen_.passes.known.push_back(&pass_);
  EXPECT_EQ(end(), "epoch[0](step[0]) epoch[1]");
}

TEST_F(PassMoves, APassWhoseEpochIsOverGetsOneOfItsOwn) {
  pass_.nested = pass_.trained = true;
  make(Move::kReopenEpoch);
  EXPECT_TRUE(pass_.role == Role::kOwner && !pass_.nested);
  seen_.passes.known.push_back(&pass_);
  EXPECT_EQ(end(), "epoch[0]");
}

TEST_F(PassMoves, AFetchBeginsTheNextStep) {
  open_done_step();
  make(Move::kFetchInNextStep);
  EXPECT_TRUE(seen_.step.goes_on());
  EXPECT_EQ(seen_.step.index(), 1);
  EXPECT_EQ(end(), "step[0] step[1]");
}

TEST_F(PassMoves, AFetchEndsTheLastStepWhereTheNextIsNotOurs) {
  open_done_step();
  make(Move::kFetchInNoStep);
  EXPECT_FALSE(seen_.step.is_open());
  EXPECT_EQ(end(), "step[0]");
}

// -- its loader is exhausted --

TEST_F(PassMoves, APassWithBatchesLeftGoesOn) {
  own_scope(pass_, false);
  pass_.fetch.left = 1;
  make(Move::kKeepLeft);
  EXPECT_TRUE(pass_.fetch.drained && seen_.epochs.final_batch);
  EXPECT_TRUE(record::is_open(pass_.scope));
  pass_.fetch.left = 2;
  make(Move::kKeepLeft);
  EXPECT_FALSE(seen_.epochs.final_batch);
}

TEST_F(PassMoves, AScopeThatWasOpenedForNothingIsTakenBack) {
  own_scope(pass_, false);
  make(Move::kDropEmptyScope);
  EXPECT_EQ(pass_.seen, nullptr);
  EXPECT_EQ(end(), "");
}

TEST_F(PassMoves, AScopeWithASpanInItIsNotTakenBack) {
  own_scope(pass_, false);
  pass_.trained = true;
  record_span();
  make(Move::kDropEmptyScope);
  EXPECT_EQ(pass_.seen, nullptr);
  EXPECT_EQ(end(), "epoch[0](forward)");
}

TEST_F(PassMoves, APassWithoutBatchesIsNoPeekAndTheStepThatWaitedBegins) {
  own_scope(pass_, false);
  pass_.fetch.count = 1;
  seen_.passes.owed = &other_;
  make(Move::kFinishPass);
  EXPECT_EQ(pass_.seen, nullptr);
  EXPECT_TRUE(seen_.step.is_open());
  record_span();
  EXPECT_EQ(end(), "epoch[0] step[0](forward)");
}

// -- it is over --

TEST_F(PassMoves, AScopeEndsAsWhatThePassWas) {
  own_scope(pass_, false);
  record_span();
  make(Move::kFinishPeek);
  EXPECT_EQ(pass_.seen, nullptr);
  EXPECT_EQ(end(), "peek(forward)");
}

TEST_F(PassMoves, AnEpochIsCountedAndPartsFromThePassesThatFedIt) {
  own_scope(pass_, false);
  seen_.passes.known.push_back(&other_);
  other_.role = Role::kMember;
  make(Move::kFinishEpoch);
  EXPECT_EQ(seen_.epochs.next, 1);
  EXPECT_TRUE(other_.relation.parted);
  EXPECT_EQ(pass_.seen, nullptr);
  EXPECT_EQ(end(), "epoch[0]");
}

TEST_F(PassMoves, AValidationIsNotCounted) {
  own_scope(pass_, true);
  record_span();
  make(Move::kFinishCheck);
  EXPECT_EQ(seen_.epochs.next, 0);
  EXPECT_EQ(pass_.seen, nullptr);
  EXPECT_EQ(end(), "validation(forward)");
}

// -- a step that a trainer announces --

TEST_F(PassMoves, TheStepThatIsOpenGetsTheTrainersNumber) {
  open_step(seen_, here(), -1, Moment());
  make(Move::kRenumberStep, {.number = 7});
  EXPECT_EQ(seen_.step.index(), 7);
  EXPECT_EQ(end(), "step[7]");
}

TEST_F(PassMoves, AStepBeginsWithTheTrainersNumber) {
  open_done_step();
  make(Move::kOpenNumberedStep, {.number = 7});
  EXPECT_EQ(end(), "step[0] step[7]");
}

}  // namespace
}  // namespace sonde::hook
