// What is training and what is evaluation, with a loader.
#include "tests/engine/hook/training_tree.h"

namespace sonde::hook {
namespace {

const std::string kStep = "(data_load forward backward optimizer_step)";

TEST_F(TrainingTree, GradientsOffEvaluateWhateverTheMode) {
  Loader loader, held_out;
  auto pass = loader.iterate();
  fetch(*pass);
  train();
  end_of(*pass);
  auto check = held_out.iterate();
  for (int i = 0; i < 2; ++i) {
    fetch(*check);  // the loop is outside no_grad
    look(Mode::kTrain);
  }
  end_of(*check);
  EXPECT_EQ(tree(),
            "epoch[0](step[0]" + kStep + ") validation(data_load forward data_load forward)");
}

TEST_F(TrainingTree, PassWithoutBackwardEvaluates) {
  Loader loader, held_out;
  auto pass = loader.iterate();
  fetch(*pass);
  train();
  end_of(*pass);
  auto check = held_out.iterate();
  for (int i = 0; i < 3; ++i) {
    fetch(*check);
    forward();
  }
  end_of(*check);
  EXPECT_EQ(tree(), "epoch[0](step[0]" + kStep +
                        ") validation(data_load forward data_load forward data_load forward)");
}

TEST_F(TrainingTree, PassWithoutBackwardInsideAnEpochEvaluates) {
  Loader loader, held_out;
  auto pass = loader.iterate();
  fetch(*pass);
  train();
  auto check = held_out.iterate();
  for (int i = 0; i < 2; ++i) {
    fetch(*check);
    forward();
  }
  end_of(*check);
  fetch(*pass);
  train();
  end_of(*pass);
  EXPECT_EQ(tree(), "epoch[0](step[0]" + kStep +
                        " validation(data_load forward data_load forward) step[1]" + kStep + ")");
}

TEST_F(TrainingTree, LooksAtAValidationIteratorThatStays) {
  Loader loader, held_out;
  for (const Hint hint : {Hint::kGradientsOff, Hint::kNone}) {
    begin_session(3);
    auto pass = loader.iterate();
    auto check = held_out.iterate();
    for (int i = 0; i < 3; ++i) {
      fetch(*pass);
      train();
      fetch(*check, Fetched::kItem, hint);
      look();
    }
    end_of(*pass);
    const std::string look = " validation(data_load forward:eval)";
    EXPECT_EQ(tree(), "epoch[0](step[0]" + kStep + look + " step[1]" + kStep + look + " step[2]" +
                          kStep + look + ")");
  }
}

TEST_F(TrainingTree, BatchThatWasSkippedMakesNoValidationOfTheEpoch) {
  Loader loader;
  auto pass = loader.iterate();
  fetch(*pass);
  forward();  // and no backward: the loss was not finite
  fetch(*pass);
  train();
  end_of(*pass);
  EXPECT_EQ(tree(), "epoch[0](data_load forward step[0]" + kStep + ")");
}

TEST_F(TrainingTree, EvaluationAfterTheStepOnItsBatch) {
  Loader loader;
  auto pass = loader.iterate();
  for (int i = 0; i < 3; ++i) {
    fetch(*pass);
    train();
    look(Mode::kTrain);
  }
  end_of(*pass);
  EXPECT_EQ(tree(), "epoch[0](step[0]" + kStep + " validation(forward) step[1]" + kStep +
                        " validation(forward) step[2]" + kStep + " validation(forward))");
}

TEST_F(TrainingTree, ForwardWithoutGradientsBetweenTwoOptimizersOfAStep) {
  Loader loader;
  int one = 0, two = 0;
  auto pass = loader.iterate();
  for (int i = 0; i < 3; ++i) {
    fetch(*pass);
    train(&one);
    look(Mode::kTrain);
    train(&two);
  }
  end_of(*pass);
  const std::string step =
      "(data_load forward backward optimizer_step forward forward backward optimizer_step)";
  EXPECT_EQ(tree(), "epoch[0](step[0]" + step + " step[1]" + step + " step[2]" + step + ")");
}

TEST_F(TrainingTree, FetchingAheadByOne) {
  Loader loader;
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto pass = loader.iterate();
    fetch(*pass);
    for (int i = 0; i < 2; ++i) {
      fetch(*pass);
      train();
    }
    end_of(*pass);
    drop(std::move(pass));
    train();
  }
  finish();
  const std::string epoch =
      "(step[0](data_load data_load forward backward optimizer_step) step[1]" + kStep +
      " step[2](forward backward optimizer_step))";
  EXPECT_EQ(tree(), "epoch[0]" + epoch + " epoch[1]" + epoch);
}

TEST_F(TrainingTree, FetchingAheadByTwo) {
  Loader loader;
  auto pass = loader.iterate();
  fetch(*pass);
  fetch(*pass);
  for (int i = 0; i < 2; ++i) {
    fetch(*pass);
    train();
  }
  end_of(*pass);
  drop(std::move(pass));
  train();
  train();
  look();  // what comes next is no part of it
  finish();
  const std::string rest = "(forward backward optimizer_step)";
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load data_load data_load forward backward "
            "optimizer_step) step[1]" +
                kStep + " step[2]" + rest + " step[3]" + rest + ") validation(forward:eval)");
}

TEST_F(TrainingTree, ValidationThatFetchesAhead) {
  Loader loader, held_out;
  auto pass = loader.iterate();
  fetch(*pass);
  train();
  end_of(*pass);
  auto check = held_out.iterate();
  fetch(*check, Fetched::kItem, true);
  fetch(*check, Fetched::kItem, true);
  look();
  end_of(*check, true);
  drop(std::move(check));
  look();
  auto next = loader.iterate();
  fetch(*next);
  train();
  end_of(*next);
  EXPECT_EQ(tree(), "epoch[0](step[0]" + kStep +
                        ") validation(data_load data_load forward:eval forward:eval) epoch[1]("
                        "step[0]" +
                        kStep + ")");
}

TEST_F(TrainingTree, OneBatchThatIsFetchedAheadInEvaluationMode) {
  Loader loader;
  auto pass = loader.iterate();
  fetch(*pass, Fetched::kItem, Hint::kModelInEval);
  fetch(*pass, Fetched::kEnd, Hint::kNone);
  drop(std::move(pass));
  forward(Mode::kEval);
  backward();
  optimize();
  finish();
  EXPECT_EQ(tree(), "epoch[0](step[0](data_load forward:eval backward optimizer_step))");
}

TEST_F(TrainingTree, ValidationThatNothingHintsAtBeforeTheFirstForward) {
  Loader loader, held_out;
  auto pass = loader.iterate();
  for (int i = 0; i < 2; ++i) {
    fetch(*pass);
    auto check = held_out.iterate();
    fetch(*check);
    forward();
    end_of(*check);
    train();
  }
  end_of(*pass);
  const std::string step = "data_load validation(data_load forward) step[";
  const std::string part = "](forward backward optimizer_step)";
  EXPECT_EQ(tree(), "epoch[0](" + step + "0" + part + " " + step + "1" + part + ")");
}

TEST_F(TrainingTree, EndlessLoaderThatIsFetchedAhead) {
  Loader loader;
  auto pass = loader.iterate();
  fetch(*pass);
  for (int i = 0; i < 4; ++i) {
    if (i % 2 == 1) {
      end_of(*pass);
      pass = loader.iterate();
    }
    fetch(*pass);
    train();
  }
  drop(std::move(pass));
  finish();
  const std::string tree = this->tree();
  EXPECT_NE(tree.find("epoch[0](step[0](data_load data_load forward backward optimizer_step) "
                      "step[1](data_load forward backward optimizer_step)) epoch[1](step[0]"),
            std::string::npos)
      << tree;
}

TEST_F(TrainingTree, LookAtTheLoaderOfTheEpoch) {
  Loader loader;
  auto pass = loader.iterate();
  for (int i = 0; i < 2; ++i) {
    fetch(*pass);
    train();
    auto peek = loader.iterate();
    fetch(*peek);
    drop(std::move(peek));
  }
  end_of(*pass);
  EXPECT_EQ(tree(), "epoch[0](step[0]" + kStep + " data_load step[1]" + kStep + " data_load)");
}

TEST_F(TrainingTree, ValidationOfNothingIsNone) {
  Loader held_out;
  auto check = held_out.iterate();
  end_of(*check, true);
  EXPECT_EQ(tree(), "");
}

TEST_F(TrainingTree, HooksThatAreTakenAwayCloseWhatTheyOpened) {
  Loader loader;
  const auto mine = testing::open("mine");
  auto pass = loader.iterate();
  fetch(*pass);
  train();
  finish();
  testing::close(mine);
  EXPECT_EQ(tree(), "mine(epoch[0](step[0]" + kStep + "))");
}

TEST_F(TrainingTree, ScopeOpenedInAValidationGoesOnWithTraining) {
  int one = 0;
  for (int i = 0; i < 2; ++i) train(&one);
  look();
  const auto mine = testing::open("mine");  // the validation is over, as it turns out
  train(&one);
  testing::close(mine);
  finish();
  const std::string part = "(forward backward optimizer_step)";
  EXPECT_EQ(tree(), "epoch[0](step[0]" + part + " step[1]" + part +
                        " validation(forward:eval) mine(step[2]!parent" + part + "))");
}

}  // namespace
}  // namespace sonde::hook
