// The tree that follows from what hooks report, told without any framework.
#include "tests/engine/hook/training_tree.h"

namespace sonde::hook {
namespace {

TEST_F(TrainingTree, PlainLoop) {
  Loader loader;
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto pass = loader.iterate();
    for (int i = 0; i < 2; ++i) {
      fetch(*pass);
      train();
    }
    end_of(*pass);
    drop(std::move(pass));
  }
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load forward backward optimizer_step) "
            "step[1](data_load forward backward optimizer_step)) "
            "epoch[1](step[0](data_load forward backward optimizer_step) "
            "step[1](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, AccumulationIsOneStep) {
  Loader loader;
  auto pass = loader.iterate();
  for (int i = 0; i < 4; ++i) {
    fetch(*pass);
    forward();
    backward();
    if (i % 2 == 1) optimize();
  }
  end_of(*pass);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load forward backward data_load forward backward "
            "optimizer_step) step[1](data_load forward backward data_load forward backward "
            "optimizer_step))");
}

TEST_F(TrainingTree, SeveralOptimizersBelongToOneStep) {
  Loader loader;
  auto pass = loader.iterate();
  fetch(*pass);
  train();
  train();
  end_of(*pass);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load forward backward optimizer_step forward backward "
            "optimizer_step))");
}

TEST_F(TrainingTree, SkippedStepIsAStep) {
  Loader loader;
  auto pass = loader.iterate();
  fetch(*pass);
  forward();
  backward();
  Training::of(here()).skip_step(here(), nullptr);
  fetch(*pass);
  train();
  end_of(*pass);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load forward backward) "
            "step[1](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, EvaluationIsValidationAndTakesNoIndex) {
  Loader train_loader, eval_loader;
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto pass = train_loader.iterate();
    fetch(*pass);
    train();
    end_of(*pass);
    auto check = eval_loader.iterate();
    for (int i = 0; i < 2; ++i) {
      fetch(*check, Fetched::kItem, true);
      forward(Mode::kEval);
    }
    end_of(*check);
  }
  const std::string epoch = "(step[0](data_load forward backward optimizer_step))";
  const std::string check = " validation(data_load forward:eval data_load forward:eval)";
  EXPECT_EQ(tree(), "epoch[0]" + epoch + check + " epoch[1]" + epoch + check);
}

TEST_F(TrainingTree, EvaluationThatNothingHintsAt) {
  Loader loader;
  auto pass = loader.iterate();
  for (int i = 0; i < 2; ++i) {
    fetch(*pass);
    forward(Mode::kEval);
  }
  end_of(*pass);
  EXPECT_EQ(tree(), "validation(data_load forward:eval data_load forward:eval)");
}

TEST_F(TrainingTree, ValidationInTheMiddleOfAnEpoch) {
  Loader train_loader, eval_loader;
  auto pass = train_loader.iterate();
  fetch(*pass);
  train();
  auto check = eval_loader.iterate();
  fetch(*check, Fetched::kItem, true);
  forward(Mode::kEval);
  end_of(*check);
  fetch(*pass);
  train();
  end_of(*pass);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load forward backward optimizer_step) "
            "validation(data_load forward:eval) "
            "step[1](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, ValidationInTheMiddleThatNothingHintsAt) {
  Loader train_loader, eval_loader;
  auto pass = train_loader.iterate();
  fetch(*pass);
  train();
  auto check = eval_loader.iterate();
  fetch(*check);
  forward(Mode::kEval);
  end_of(*check);
  fetch(*pass);
  train();
  end_of(*pass);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load forward backward optimizer_step) "
            "validation(data_load forward:eval) "
            "step[1](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, FrozenTeacherMakesNoValidation) {
  Loader loader;
  auto pass = loader.iterate();
  fetch(*pass);
  frozen();
  train();
  end_of(*pass);
  EXPECT_EQ(tree(), "epoch[0](step[0](data_load forward:eval forward backward optimizer_step))");
}

TEST_F(TrainingTree, TrainingInEvaluationMode) {
  Loader loader;
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto pass = loader.iterate();
    for (int i = 0; i < 2; ++i) {
      fetch(*pass, Fetched::kItem, Hint::kModelInEval);
      forward(Mode::kEval);
      backward();
      optimize();
    }
    end_of(*pass);
  }
  const std::string step = "(data_load forward:eval backward optimizer_step)";
  const std::string epoch = "(step[0]" + step + " step[1]" + step + ")";
  EXPECT_EQ(tree(), "epoch[0]" + epoch + " epoch[1]" + epoch);
}

TEST_F(TrainingTree, CaughtFailureAndValidationEndNoEpoch) {
  Loader loader, held_out;
  auto pass = loader.iterate();
  for (int i = 0; i < 2; ++i) {
    fetch(*pass);
    if (i == 0) {
      forward(Mode::kTrain, true);
      auto check = held_out.iterate();
      fetch(*check, Fetched::kItem, true);
      forward(Mode::kEval);
      end_of(*check);
    }
    train();
  }
  end_of(*pass);
  EXPECT_EQ(
      tree(),
      "epoch[0](step[0](data_load forward validation(data_load forward:eval) forward backward "
      "optimizer_step) step[1](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, AbandonedIteratorEndsItsEpoch) {
  Loader loader;
  auto pass = loader.iterate();
  fetch(*pass);
  train();
  fetch(*pass);
  forward();
  drop(std::move(pass));
  auto next = loader.iterate();
  fetch(*next);
  train();
  end_of(*next);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load forward backward optimizer_step) step[1](data_load "
            "forward)) epoch[1](step[0](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, EpochThatFailedIsOverWhenAnotherBegins) {
  Loader loader, other;
  auto pass = loader.iterate();  // kept alive, as a traceback does
  fetch(*pass);
  forward(Mode::kTrain, true);
  auto next = other.iterate();
  fetch(*next);
  train();
  end_of(*next);
  drop(std::move(pass));
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load forward)) "
            "epoch[1](step[0](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, ErrorThatWasCaughtInsideTheLoopEndsNothing) {
  Loader loader;
  auto pass = loader.iterate();
  fetch(*pass);
  forward(Mode::kTrain, true);
  fetch(*pass);
  train();
  end_of(*pass);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load forward data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, OptimizerThatRaisedIsClosedByWhatComesNext) {
  Loader loader;
  auto pass = loader.iterate();
  fetch(*pass);
  forward();
  backward();
  Training::of(here()).begin_optimizer(here(), nullptr, false);  // no end
  fetch(*pass);
  train();
  end_of(*pass);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load forward backward optimizer_step data_load forward "
            "backward optimizer_step))");
}

TEST_F(TrainingTree, ClosureRunsInsideTheOptimizer) {
  Loader loader;
  auto pass = loader.iterate();
  fetch(*pass);
  Training& training = Training::of(here());
  const std::uint64_t running = training.begin_optimizer(here(), nullptr, true);
  forward();
  backward();
  forward();
  backward();
  training.end_optimizer(here(), running, true);
  end_of(*pass);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load optimizer_step(forward backward forward backward)))");
}

TEST_F(TrainingTree, OwnerOfTheEpochKeepsIt) {
  Loader loader, eval_loader;
  for (int i = 0; i < 2; ++i) {
    const auto epoch = testing::open("epoch", {.index = i, .flags = record::kHasIndex});
    auto pass = loader.iterate();
    fetch(*pass);
    train();
    end_of(*pass);
    auto check = eval_loader.iterate();
    fetch(*check);
    forward(Mode::kEval);
    end_of(*check);
    testing::close(epoch);
  }
  const std::string inside =
      "(step[0](data_load forward backward optimizer_step) validation(data_load forward:eval))";
  EXPECT_EQ(tree(), "epoch[0]" + inside + " epoch[1]" + inside);
}

TEST_F(TrainingTree, OwnerOfTheStepsKeepsThem) {
  Loader loader;
  auto pass = loader.iterate();
  const auto run = testing::open("fit", {.flags = record::kOwnsSteps});
  for (int i = 0; i < 2; ++i) {
    fetch(*pass);
    const auto batch = testing::open("batch", {.index = i, .flags = record::kHasIndex});
    train();
    testing::close(batch);
  }
  end_of(*pass);
  testing::close(run);
  EXPECT_EQ(tree(),
            "fit(epoch[0](data_load batch[0](forward backward optimizer_step) "
            "data_load batch[1](forward backward optimizer_step)))");
}

TEST_F(TrainingTree, UserScopeMayReachAcrossTheOptimizerStep) {
  Loader loader;
  auto pass = loader.iterate();
  for (int i = 0; i < 2; ++i) {
    fetch(*pass);
    const auto mine = testing::open("mine");
    train();
    testing::close(mine);
  }
  end_of(*pass);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load mine(forward backward optimizer_step)) "
            "step[1](data_load mine(forward backward optimizer_step)))");
}

TEST_F(TrainingTree, UserScopeAcrossAFetchKeepsTheStepOpen) {
  Loader loader;
  auto pass = loader.iterate();
  fetch(*pass);
  const auto mine = testing::open("mine");
  train();
  fetch(*pass);
  train();
  testing::close(mine);
  fetch(*pass);
  train();
  end_of(*pass);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load mine(forward backward optimizer_step data_load forward "
            "backward optimizer_step)) step[1](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, EpochInsideAScopeThatEndsFirst) {
  Loader loader;
  auto pass = loader.iterate();
  for (int i = 0; i < 3; ++i) {
    const auto round = testing::open("round");
    fetch(*pass);
    train();
    testing::close(round);
  }
  end_of(*pass);
  const std::string step = "(data_load forward backward optimizer_step)";
  EXPECT_EQ(tree(), "round(epoch[0]!parent(step[0]!parent" + step + ")) round(step[0]!parent" +
                        step + ") round(step[1]!parent" + step + ")");
}

TEST_F(TrainingTree, WithoutALoaderStepsMakeEpochs) {
  for (int i = 0; i < 8; ++i) train();  // three to an epoch
  Loader loader;
  auto pass = loader.iterate();
  fetch(*pass);
  train();
  end_of(*pass);
  const std::string step = "(forward backward optimizer_step)";
  EXPECT_EQ(tree(), "epoch[0](step[0]" + step + " step[1]" + step + " step[2]" + step +
                        ") epoch[1](step[0]" + step + " step[1]" + step + " step[2]" + step +
                        ") epoch[2](step[0]" + step + " step[1]" + step +
                        ") epoch[3](step[0](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, LoaderEpochsAreNotCutByTheNumberOfSteps) {
  Loader loader;
  auto pass = loader.iterate();
  std::string steps;
  for (int i = 0; i < 8; ++i) {
    fetch(*pass);
    train();
    steps += (i ? " step[" : "step[") + std::to_string(i) +
             "](data_load forward backward optimizer_step)";
  }
  end_of(*pass);
  EXPECT_EQ(tree(), "epoch[0](" + steps + ")");
}

TEST_F(TrainingTree, ErrorWhileFetchingIsAFetch) {
  Loader loader;
  auto pass = loader.iterate();
  fetch(*pass);
  train();
  fetch(*pass, Fetched::kError);
  drop(std::move(pass));
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load forward backward optimizer_step) step[1](data_load))");
}

TEST_F(TrainingTree, EmptyLoaderIsAnEmptyEpoch) {
  Loader loader;
  auto pass = loader.iterate();
  end_of(*pass);
  EXPECT_EQ(tree(), "epoch[0]");
}

TEST_F(TrainingTree, SessionsCountFromZero) {
  Loader loader;
  for (int session = 0; session < 2; ++session) {
    begin_session(1000);
    auto pass = loader.iterate();
    fetch(*pass);
    train();
    end_of(*pass);
    EXPECT_EQ(tree(), "epoch[0](step[0](data_load forward backward optimizer_step))");
  }
}

TEST_F(TrainingTree, PassThatOutlivesItsSessionIsForgotten) {
  Loader loader;
  auto pass = loader.iterate();
  fetch(*pass);
  begin_session(1000);
  fetch(*pass);
  drop(std::move(pass));
  record::close_above(here().stack, 0, record::ClosedBy::kShutdown);
  tree();
}

TEST_F(TrainingTree, TrainingThatLookedLikeValidation) {
  Loader loader;
  for (int i = 0; i < 2; ++i) {
    auto pass = loader.iterate();
    for (const bool model_left_in_eval : {true, false}) {
      fetch(*pass, Fetched::kItem, model_left_in_eval);
      train();
    }
    end_of(*pass);
  }
  const std::string epoch =
      "(step[0](data_load forward backward optimizer_step) "
      "step[1](data_load forward backward optimizer_step))";
  EXPECT_EQ(tree(), "epoch[0]" + epoch + " epoch[1]" + epoch);
}

TEST_F(TrainingTree, TrainingThatLookedLikeValidationInAnEpochOfTheProgram) {
  Loader loader;
  const auto epoch = testing::open("epoch");
  auto pass = loader.iterate();
  for (const bool model_left_in_eval : {true, false}) {
    fetch(*pass, Fetched::kItem, model_left_in_eval);
    train();
  }
  end_of(*pass);
  testing::close(epoch);
  EXPECT_EQ(tree(),
            "epoch(step[0](data_load forward backward optimizer_step) "
            "step[1](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, TrainModeForwardInAValidationOfTheProgramOpensNoStep) {
  Loader loader;
  const auto check = testing::open("validation");
  auto pass = loader.iterate();
  for (int i = 0; i < 2; ++i) {
    fetch(*pass, Fetched::kItem, true);
    forward(Mode::kEval);
  }
  end_of(*pass);
  auto second = loader.iterate();
  fetch(*second);
  forward(Mode::kTrain);
  end_of(*second);
  testing::close(check);
  EXPECT_EQ(tree(), "validation(data_load forward:eval data_load forward:eval data_load forward)");
}

}  // namespace
}  // namespace sonde::hook
