// The tree under a trainer that has epochs of its own and hands the optimizer a closure.
#include <thread>

#include "tests/engine/hook/training_tree.h"

namespace sonde::hook {
namespace {

TEST_F(TrainingTree, ClosureOfATrainerStandsBesideTheOptimizer) {
  Loader loader;
  Training& training = Training::of(here());
  training.begin_trainer(here());
  const auto epoch = testing::open("epoch");
  auto pass = loader.iterate();
  fetch(*pass);
  const std::uint64_t running = training.begin_optimizer(here(), nullptr, true);
  forward();
  backward();
  training.end_closure(here());
  forward();  // some optimizers run it again
  backward();
  training.end_closure(here());
  training.end_optimizer(here(), running, true);
  training.end_closure(here());  // none under way
  end_of(*pass);
  testing::close(epoch);
  training.end_trainer();
  EXPECT_EQ(tree(),
            "epoch(step[0](data_load forward backward optimizer_step forward backward "
            "optimizer_step))");
}

TEST_F(TrainingTree, TrainerOpensTheEpochsAndNothingIsInferredOutsideOfThem) {
  Loader loader, other;
  Training& training = Training::of(here());
  training.begin_trainer(here());
  auto pass = loader.iterate();
  fetch(*pass);  // before its first epoch
  EXPECT_FALSE(training.owned(*record::this_thread()->lane, Training::Level::kEpoch));
  const auto epoch = testing::open("epoch");
  EXPECT_TRUE(training.owned(*record::this_thread()->lane, Training::Level::kEpoch));
  fetch(*pass);
  train();
  end_of(*pass);
  testing::close(epoch);
  training.end_trainer();
  auto later = other.iterate();
  fetch(*later);
  train();
  end_of(*later);
  EXPECT_EQ(tree(),
            "data_load epoch(step[0](data_load forward backward optimizer_step)) "
            "epoch[0](step[0](data_load forward backward optimizer_step))");
}

// As tf.data does for Keras: the trainer's thread waits for a batch that another thread fetches.
TEST_F(TrainingTree, AThreadThatFetchesForATrainerOpensNothing) {
  Loader loader;
  Training& training = Training::of(here());
  training.begin_announced(here());
  std::thread([&] {
    for (int epoch = 0; epoch < 2; ++epoch) {
      auto pass = loader.iterate();
      fetch(*pass);
      fetch(*pass);
      end_of(*pass);
    }
    auto peek = loader.iterate();
    fetch(*peek);
  }).join();
  training.end_announced();
  EXPECT_EQ(tree(), "data_load data_load data_load data_load data_load");
}

TEST_F(TrainingTree, AThreadThatTrainsBesideATrainerHasStepsOfItsOwn) {
  Loader loader;
  Training& training = Training::of(here());
  training.begin_announced(here());
  std::thread([&] {
    for (int epoch = 0; epoch < 2; ++epoch) {
      auto pass = loader.iterate();
      for (int step = 0; step < 2; ++step) {
        fetch(*pass);
        train();
      }
      end_of(*pass);
    }
    Training::conclude_all(*record::this_thread());
  }).join();
  training.end_announced();
  EXPECT_EQ(tree(),
            "data_load epoch[0](step[0](forward backward optimizer_step)) "
            "epoch[1](step[0](data_load forward backward optimizer_step)) "
            "epoch[2](step[0](data_load forward backward optimizer_step) "
            "step[1](data_load forward backward optimizer_step))")
      << "the first batch counts for the trainer";
}

TEST_F(TrainingTree, TwoTrainersOnTwoThreadsBothHaveSteps) {
  Loader loader;
  Training& training = Training::of(here());
  training.begin_trainer(here());
  std::thread([&] {
    Training& other = Training::of(here());
    other.begin_trainer(here());
    const auto epoch = testing::open("epoch");
    auto pass = loader.iterate();
    for (int step = 0; step < 2; ++step) {
      fetch(*pass);
      train();
    }
    end_of(*pass);
    testing::close(epoch);
    other.end_trainer();
  }).join();
  training.end_trainer();
  EXPECT_EQ(tree(),
            "epoch(step[0](data_load forward backward optimizer_step) "
            "step[1](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, OwnerOfTheValidationKeepsIt) {
  Loader loader;
  const auto run = testing::open(
      "test", {.flags = record::kOwnsEpochs | record::kOwnsSteps | record::kOwnsValidation});
  auto pass = loader.iterate();
  fetch(*pass, Fetched::kItem, true);
  forward(Mode::kEval);
  end_of(*pass);
  testing::close(run);
  EXPECT_EQ(tree(), "test(data_load forward:eval)");
}

TEST_F(TrainingTree, FetchWithNothingAfterItStaysWhereItWas) {
  Loader loader;
  const auto run = testing::open("validation");
  auto pass = loader.iterate();
  fetch(*pass, Fetched::kItem, true);
  testing::close(run);  // an exception, and the iterator goes later
  drop(std::move(pass));
  EXPECT_EQ(tree(), "validation(data_load)");
}

TEST_F(TrainingTree, TrainerAnnouncesEverything) {
  Loader loader, eval_loader;
  Training& training = Training::of(here());
  training.begin_announced(here());
  auto look = loader.iterate();
  fetch(*look);
  drop(std::move(look));
  forward(Mode::kEval);
  const auto epoch = testing::open("epoch", {.index = 7, .flags = record::kHasIndex});
  auto pass = loader.iterate();
  fetch(*pass, Fetched::kItem, true);  // some other model is in evaluation mode
  const auto batch = testing::open("batch");
  train();
  testing::close(batch);
  end_of(*pass);
  auto check = eval_loader.iterate();
  fetch(*check);
  forward(Mode::kEval);
  end_of(*check);
  testing::close(epoch);
  training.end_announced();
  forward();  // its steps do not make a loop without a loader
  auto own = loader.iterate();
  fetch(*own);
  train();
  end_of(*own);
  EXPECT_EQ(tree(),
            "data_load forward:eval epoch[7](data_load batch(forward backward optimizer_step) "
            "data_load forward:eval) forward "
            "epoch[0](step[0](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, AnnouncedTrainerEndsWhatALoopBeforeItLeftOpen) {
  Loader loader, other;
  auto pass = loader.iterate();  // kept alive, as a traceback does
  fetch(*pass);
  forward(Mode::kTrain, true);
  Training& training = Training::of(here());
  training.begin_announced(here());
  const auto epoch = testing::open("epoch", {.index = 7, .flags = record::kHasIndex});
  auto next = other.iterate();
  fetch(*next);
  train();
  end_of(*next);
  testing::close(epoch);
  training.end_announced();
  training.end_announced();  // once too often: the session changed in between
  drop(std::move(pass));
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load forward)) "
            "epoch[7](data_load forward backward optimizer_step)");
}

TEST_F(TrainingTree, AnnouncedTrainerInsideALoopThatGoesOn) {
  Loader loader, other;
  auto pass = loader.iterate();
  fetch(*pass);
  forward();
  Training& training = Training::of(here());
  EXPECT_FALSE(training.owned(here().stack, Training::Level::kEpoch));
  training.begin_announced(here());
  const auto epoch = testing::open("epoch", {.index = 7, .flags = record::kHasIndex});
  EXPECT_TRUE(training.owned(here().stack, Training::Level::kEpoch));
  EXPECT_FALSE(training.owned(here().stack, Training::Level::kStep));
  auto inner = other.iterate();
  fetch(*inner);
  train();
  end_of(*inner);
  testing::close(epoch);
  training.end_announced();
  end_of(*pass);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load forward epoch[7](data_load forward backward "
            "optimizer_step)))");
}

}  // namespace
}  // namespace sonde::hook
