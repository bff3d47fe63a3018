// A trainer that numbers its own steps.
#include "tests/engine/hook/training_tree.h"

namespace sonde::hook {
namespace {

TEST_F(TrainingTree, TrainerNumbersItsSteps) {
  Loader loader;
  const auto epoch = testing::open("epoch");
  auto pass = loader.iterate();
  Training& training = Training::of(here());
  for (int i = 0; i < 2; ++i) {
    fetch(*pass);
    training.begin_step(here(), 40 + i);
    train();
    training.step_over();
  }
  training.end_step(here());
  testing::close(epoch);
  EXPECT_EQ(tree(),
            "epoch(step[40](data_load forward backward optimizer_step) "
            "step[41](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, TrainerOpensItsStepsWhereNobodySeesFetches) {
  const auto epoch = testing::open("epoch");
  Training& training = Training::of(here());
  for (int i = 0; i < 2; ++i) {
    training.begin_step(here(), 40 + i);
    training.step_over();
  }
  training.end_step(here());
  testing::close(epoch);
  EXPECT_EQ(tree(), "epoch(step[40] step[41])");
}

TEST_F(TrainingTree, FrozenModelThatRunsFirstInATrainersStep) {
  Loader loader;
  const auto epoch = testing::open("epoch");
  auto pass = loader.iterate();
  fetch(*pass);
  Training::of(here()).begin_step(here(), 7);
  forward(Mode::kEval);
  train();
  end_of(*pass);
  testing::close(epoch);
  EXPECT_EQ(tree(), "epoch(step[7](data_load forward:eval forward backward optimizer_step))");
}

TEST_F(TrainingTree, StepUnderAScopeOfTheProgramWaitsWithItsEnd) {
  Loader loader;
  const auto epoch = testing::open("epoch");
  auto pass = loader.iterate();
  Training& training = Training::of(here());
  fetch(*pass);
  training.begin_step(here(), 0);
  const auto mine = testing::open("mine");
  train();
  training.end_step(here());
  testing::close(mine);
  fetch(*pass);
  training.begin_step(here(), 1);
  train();
  end_of(*pass);
  testing::close(epoch);
  EXPECT_EQ(tree(),
            "epoch(step[0](data_load mine(forward backward optimizer_step)) "
            "step[1](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, TrainerInsideAnothersStepTakesItsNumberFromNobody) {
  Loader outer, inner;
  auto pass = outer.iterate();
  fetch(*pass);
  forward();
  const auto run = testing::open("train", {.flags = record::kOwnsEpochs | record::kOwnsSteps});
  auto within = inner.iterate();
  fetch(*within);
  Training::of(here()).begin_step(here(), 500);
  train();
  end_of(*within);
  testing::close(run);
  optimize();
  end_of(*pass);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load forward train(data_load forward backward optimizer_step) "
            "optimizer_step))");
}

}  // namespace
}  // namespace sonde::hook
