// Loops without a loader: steps follow from the optimizers, validations from the forwards.
#include "tests/engine/hook/training_tree.h"

namespace sonde::hook {
namespace {

const std::string kPart = "(forward backward optimizer_step)";

class Iterations : public TrainingTree {
 protected:
  void SetUp() override {
    TrainingTree::SetUp();
    begin_session(1000);
  }
  static std::string steps(int count, const std::string& inside = kPart, int first = 0) {
    std::string all;
    for (int i = first; i < first + count; ++i)
      all += (i > first ? " step[" : "step[") + std::to_string(i) + "]" + inside;
    return all;
  }
  int one_ = 0, two_ = 0, three_ = 0;  // optimizers
};

TEST_F(Iterations, FirstIterationIsAStepToo) {
  for (int i = 0; i < 3; ++i) train(&one_);
  finish();
  EXPECT_EQ(tree(), "epoch[0](" + steps(3) + ")");
}

TEST_F(Iterations, ForwardsAloneAreNoSteps) {
  for (int i = 0; i < 3; ++i) forward({.owned = Owned::kUnknown});
  finish();
  EXPECT_EQ(tree(), "forward forward forward");
}

TEST_F(Iterations, AForwardAfterALookIsNotAPartOfIt) {
  for (int i = 0; i < 2; ++i) train(&one_);
  look();
  train(&one_);
  // Two forwards, and the backward goes through the first, which is not watched.
  for (int i = 0; i < 2; ++i) {
    forward();
    act();
    backward();
    optimize(&one_);
  }
  finish();
  EXPECT_EQ(tree(), "epoch[0](" + steps(2) + " validation(forward:eval) " + steps(1, kPart, 2) +
                        " " + steps(2, "(forward forward backward optimizer_step)", 3) + ")");
}

TEST_F(Iterations, ABackwardThroughALookShowsThatEvaluationModeTrains) {
  for (int i = 0; i < 2; ++i) train(&one_);
  const auto in_eval = [&] {
    forward(Mode::kEval);
    auto scope = record::open_scope(here().thread, here().stack, {.name = record::intern("mine")});
    record::close_scope(here().thread, scope, {}, base::monotonic_ns());
    backward();
    optimize(&one_);
  };
  for (int i = 0; i < 3; ++i) in_eval();
  finish();
  // (The first time it is too late to take anything back: a scope of the program is in there.)
  EXPECT_EQ(tree(), "epoch[0](" + steps(2) +
                        " validation(forward:eval mine backward) step[2](optimizer_step) " +
                        steps(2, "(forward:eval mine backward optimizer_step)", 3) + ")");
}

TEST_F(Iterations, TwoOptimizersInTurns) {
  for (int i = 0; i < 4; ++i) {
    train(&one_);
    train(&two_);
  }
  finish();
  EXPECT_EQ(tree(), "epoch[0](" +
                        steps(4,
                              "(forward backward optimizer_step forward backward "
                              "optimizer_step)") +
                        ")");
}

TEST_F(Iterations, ThreeOptimizersAfterOneBackward) {
  for (int i = 0; i < 3; ++i) {
    forward();
    backward();
    optimize(&one_);
    optimize(&two_);
    optimize(&three_);
  }
  finish();
  EXPECT_EQ(tree(),
            "epoch[0](" +
                steps(3, "(forward backward optimizer_step optimizer_step optimizer_step)") + ")");
}

// Once it is known that iterations differ, each is decided at its optimizer step. The first time
// comes as a surprise, and what belongs to the second optimizer begins the next step.
TEST_F(Iterations, OneOptimizerMoreOftenThanTheOther) {
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 3; ++i) train(&one_);
    train(&two_);
  }
  finish();
  const std::string both = "(forward backward optimizer_step forward backward optimizer_step)";
  EXPECT_EQ(tree(), "epoch[0](" + steps(3) + " step[3]" + both + " " + steps(1, kPart, 4) +
                        " step[5]" + both + " " + steps(2, kPart, 6) + " step[8]" + both + ")");
}

TEST_F(Iterations, AnotherOptimizerTakesOver) {
  for (int i = 0; i < 3; ++i) train(&one_);
  for (int i = 0; i < 12; ++i) train(&two_);
  finish();
  const std::string tree = this->tree();
  EXPECT_NE(tree.find("step[9]" + kPart), std::string::npos) << tree;
}

TEST_F(Iterations, AccumulationBeforeTheOptimizer) {
  for (int i = 0; i < 2; ++i) {
    forward();
    backward();
    forward();
    backward();
    optimize(&one_);
  }
  finish();
  EXPECT_EQ(tree(),
            "epoch[0](" + steps(2, "(forward backward forward backward optimizer_step)") + ")");
}

TEST_F(Iterations, UpdatesByHand) {
  for (int i = 0; i < 3; ++i) {
    forward({.owned = Owned::kUnknown});
    backward();
  }
  finish();
  EXPECT_EQ(tree(), "epoch[0](" + steps(3, "(forward backward)") + ")");
}

TEST_F(Iterations, UpdatesByHandWithALoader) {
  Loader loader;
  auto pass = loader.iterate();
  for (int i = 0; i < 3; ++i) {
    fetch(*pass);
    forward({.owned = Owned::kUnknown});
    backward();
  }
  end_of(*pass);
  EXPECT_EQ(tree(), "epoch[0](" + steps(3, "(data_load forward backward)") + ")");
}

TEST_F(Iterations, EvaluationBetweenStepsIsNoPartOfThem) {
  for (int i = 0; i < 3; ++i) {
    train(&one_);
    look(Mode::kTrain);
    look(Mode::kTrain);
  }
  finish();
  const std::string check = " validation(forward forward)";
  EXPECT_EQ(tree(), "epoch[0](" + steps(1) + check + " " + steps(1, kPart, 1) + check + " " +
                        steps(1, kPart, 2) + check + ")");
}

TEST_F(Iterations, EvaluationWithGradientsOnInEvaluationMode) {
  for (int i = 0; i < 3; ++i) {
    train(&one_);
    act(Mode::kEval);
    act(Mode::kEval);
  }
  finish();
  const std::string check = " validation(forward:eval forward:eval)";
  EXPECT_EQ(tree(), "epoch[0](" + steps(1) + check + " " + steps(1, kPart, 1) + check + " " +
                        steps(1, kPart, 2) + check + ")");
}

TEST_F(Iterations, TrainingInEvaluationMode) {
  for (int i = 0; i < 3; ++i) {
    forward(Mode::kEval);
    backward();
    optimize(&one_);
  }
  finish();
  EXPECT_EQ(tree(), "epoch[0](" + steps(3, "(forward:eval backward optimizer_step)") + ")");
}

// Acting with gradients on, as in reinforcement learning: only the graph tells it from training.
TEST_F(Iterations, ForwardsThatNoBackwardGoesThroughAreNoPartOfTheStep) {
  for (int i = 0; i < 2; ++i) train(&one_);
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < 3; ++k) act();
    train(&one_);
  }
  finish();
  const std::string acts = " validation(forward forward forward) ";
  EXPECT_EQ(tree(),
            "epoch[0](" + steps(2) + acts + steps(1, kPart, 2) + acts + steps(1, kPart, 3) + ")");
}

TEST_F(Iterations, SeveralForwardsOfOneStep) {
  for (int i = 0; i < 3; ++i) {
    forward();
    forward();
    backward();
    optimize(&one_);
  }
  finish();
  EXPECT_EQ(tree(), "epoch[0](" + steps(3, "(forward forward backward optimizer_step)") + ")");
}

TEST_F(Iterations, TargetBelongsToTheStep) {
  for (int i = 0; i < 3; ++i) {
    frozen();
    train(&one_);
  }
  finish();
  EXPECT_EQ(tree(), "epoch[0](" + steps(3, "(forward:eval forward backward optimizer_step)") + ")");
}

// As `batch = next(iter(loader))` in every turn of a loop.
TEST_F(Iterations, LookIntoALoaderBeginsTheStep) {
  Loader loader;
  for (int i = 0; i < 3; ++i) {
    auto peek = loader.iterate();
    fetch(*peek);
    drop(std::move(peek));
    train(&one_);
  }
  finish();
  EXPECT_EQ(tree(), "epoch[0](" + steps(3, "(data_load forward backward optimizer_step)") + ")");
}

TEST_F(Iterations, OneBatchAgainAndAgain) {
  Loader loader;
  auto peek = loader.iterate();
  fetch(*peek);
  drop(std::move(peek));
  for (int i = 0; i < 3; ++i) train(&one_);
  finish();
  EXPECT_EQ(tree(), "epoch[0](step[0](data_load forward backward optimizer_step) " +
                        steps(2, kPart, 1) + ")");
}

TEST_F(Iterations, LoaderLoopEndsTheEpochWithoutOne) {
  Loader loader;
  for (int i = 0; i < 2; ++i) train(&one_);
  auto pass = loader.iterate();
  for (int i = 0; i < 2; ++i) {
    fetch(*pass);
    train(&one_);
  }
  end_of(*pass);
  for (int i = 0; i < 2; ++i) train(&one_);
  finish();
  EXPECT_EQ(tree(), "epoch[0](" + steps(2) + ") epoch[1](" +
                        steps(2, "(data_load forward backward optimizer_step)") + ") epoch[2](" +
                        steps(2) + ")");
}

TEST_F(Iterations, ValidationWithALoaderInAnEpochWithoutOne) {
  Loader held_out;
  for (int i = 0; i < 2; ++i) {
    train(&one_);
    auto check = held_out.iterate();
    fetch(*check, Fetched::kItem, true);
    look();
    end_of(*check);
  }
  finish();
  EXPECT_EQ(tree(), "epoch[0](" + steps(1) + " validation(data_load forward:eval) " +
                        steps(1, kPart, 1) + " validation(data_load forward:eval))");
}

TEST_F(Iterations, ScopeOfTheProgramAroundEveryIterationMakesNoEpochs) {
  for (int i = 0; i < 3; ++i) {
    const auto mine = testing::open("mine");
    train(&one_);
    testing::close(mine);
  }
  finish();
  EXPECT_EQ(tree(), "mine(epoch[0]!parent(step[0]!parent" + kPart + ")) mine(step[0]!parent" +
                        kPart + ") mine(step[1]!parent" + kPart + ")");
}

TEST_F(Iterations, SkippedStepsAreCounted) {
  for (int i = 0; i < 3; ++i) {
    forward();
    backward();
    if (i == 1) {
      Training::of(here()).skip_step(here(), &one_);
    } else {
      optimize(&one_);
    }
  }
  finish();
  EXPECT_EQ(tree(),
            "epoch[0](step[0]" + kPart + " step[1](forward backward) step[2]" + kPart + ")");
  EXPECT_EQ(Training::steps_skipped(), 1u);
  EXPECT_EQ(Training::steps_taken(), 2u);
}

}  // namespace
}  // namespace sonde::hook
