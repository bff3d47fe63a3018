// Several loaders, looks into a loader, several optimizers.
#include "tests/engine/hook/training_tree.h"

namespace sonde::hook {
namespace {

TEST_F(TrainingTree, PeekIsNoEpoch) {
  Loader loader;
  auto peek = loader.iterate();
  fetch(*peek);
  drop(std::move(peek));
  auto pass = loader.iterate();
  fetch(*pass);
  train();
  end_of(*pass);
  EXPECT_EQ(tree(), "data_load epoch[0](step[0](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, PeekWhoseIteratorStays) {
  Loader loader;
  auto peek = loader.iterate();
  fetch(*peek);
  for (int i = 0; i < 2; ++i) {
    auto pass = loader.iterate();
    fetch(*pass);
    train();
    end_of(*pass);
  }
  const std::string step = "(step[0](data_load forward backward optimizer_step))";
  EXPECT_EQ(tree(), "data_load epoch[0]" + step + " epoch[1]" + step);
}

// Nothing shows whether more will come from the other loader: the first epoch begins with the peek.
TEST_F(TrainingTree, PeekIntoAnotherLoaderWhoseIteratorStays) {
  Loader loader, other;
  auto peek = other.iterate();
  fetch(*peek);
  for (int i = 0; i < 3; ++i) {
    auto pass = loader.iterate();
    fetch(*pass);
    train();
    end_of(*pass);
  }
  const std::string step = "(step[0](data_load forward backward optimizer_step))";
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load data_load forward backward optimizer_step)) epoch[1]" +
                step + " epoch[2]" + step);
}

TEST_F(TrainingTree, ValidationBeforeTheFirstForwardOfAnEpoch) {
  Loader loader, held_out;
  auto pass = loader.iterate();
  for (int i = 0; i < 2; ++i) {
    fetch(*pass);
    if (i == 0) {
      auto check = held_out.iterate();
      fetch(*check, Fetched::kItem, true);
      forward(Mode::kEval);
      end_of(*check);
    }
    train();
  }
  end_of(*pass);
  EXPECT_EQ(tree(),
            "epoch[0](data_load validation(data_load forward:eval) step[0](forward backward "
            "optimizer_step) step[1](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, ValidationOnTheLoaderOfTheEpoch) {
  Loader loader;
  auto pass = loader.iterate();
  for (int i = 0; i < 2; ++i) {
    fetch(*pass);
    train();
    auto check = loader.iterate();
    fetch(*check, Fetched::kItem, true);
    forward(Mode::kEval);
    end_of(*check);
  }
  end_of(*pass);
  const std::string step =
      "(data_load forward backward optimizer_step) validation(data_load forward:eval)";
  EXPECT_EQ(tree(), "epoch[0](step[0]" + step + " step[1]" + step + ")");
}

TEST_F(TrainingTree, LoaderZippedWithItself) {
  Loader loader;
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto a = loader.iterate();
    auto b = loader.iterate();
    for (int i = 0; i < 2; ++i) {
      fetch(*a);
      fetch(*b);
      train();
    }
    end_of(*a);
  }
  const std::string steps =
      "(step[0](data_load data_load forward backward optimizer_step) "
      "step[1](data_load data_load forward backward optimizer_step))";
  EXPECT_EQ(tree(), "epoch[0]" + steps + " epoch[1]" + steps);
}

TEST_F(TrainingTree, FreshIteratorOfAnotherLoaderInEveryStep) {
  Loader loader, other;
  auto pass = loader.iterate();
  for (int i = 0; i < 2; ++i) {
    fetch(*pass);
    auto extra = other.iterate();
    fetch(*extra);
    extra.reset();
    train();
  }
  end_of(*pass);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load data_load forward backward optimizer_step) "
            "step[1](data_load data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, LoopInALoopIsOneEpoch) {
  Loader tasks, loader;
  auto outer = tasks.iterate();
  for (int task = 0; task < 2; ++task) {
    fetch(*outer);
    auto pass = loader.iterate();
    for (int i = 0; i < 2; ++i) {
      fetch(*pass);
      train();
    }
    end_of(*pass);
  }
  end_of(*outer);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load data_load forward backward optimizer_step) "
            "step[1](data_load forward backward optimizer_step) "
            "step[2](data_load data_load forward backward optimizer_step) "
            "step[3](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, PeekThatWasReadMeanwhile) {
  Loader loader;
  auto peek = loader.iterate();
  fetch(*peek);
  Training::settle_all(*record::this_thread());  // a flush
  drop(std::move(peek));
  EXPECT_EQ(tree(), "peek(step[0](data_load))");
  auto pass = loader.iterate();
  fetch(*pass);
  train();
  end_of(*pass);
  EXPECT_EQ(tree(), "epoch[0](step[0](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, ZippedLoadersAreOneEpoch) {
  Loader one, two;
  auto a = one.iterate();
  auto b = two.iterate();
  for (int i = 0; i < 2; ++i) {
    fetch(*a);
    fetch(*b);
    train();
  }
  end_of(*a);
  drop(std::move(a));
  drop(std::move(b));
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load data_load forward backward optimizer_step) "
            "step[1](data_load data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, LoaderThatReadsFromALoaderIsOneFetch) {
  Loader outer, inner;
  auto pass = outer.iterate();
  auto source = inner.iterate();
  Training& training = Training::of(here());
  training.begin_fetch(here(), *pass, Hint::kNone);
  fetch(*source);
  training.end_fetch(here(), *pass, Fetched::kItem);
  train();
  training.begin_fetch(here(), *pass, Hint::kNone);
  end_of(*source);
  training.end_fetch(here(), *pass, Fetched::kEnd);
  EXPECT_EQ(tree(), "epoch[0](step[0](data_load forward backward optimizer_step))");
}

TEST_F(TrainingTree, OptimizerInsideAnOptimizer) {
  Loader loader;
  auto pass = loader.iterate();
  Training& training = Training::of(here());
  for (int i = 0; i < 2; ++i) {
    fetch(*pass);
    const std::uint64_t outer = training.begin_optimizer(here(), nullptr, false);
    optimize();
    training.end_optimizer(here(), outer, true);
  }
  end_of(*pass);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load optimizer_step(optimizer_step)) "
            "step[1](data_load optimizer_step(optimizer_step)))");
}

TEST_F(TrainingTree, OptimizerThatRaisesEndsThere) {
  Loader loader;
  auto pass = loader.iterate();
  Training& training = Training::of(here());
  fetch(*pass);
  const std::uint64_t outer = training.begin_optimizer(here(), nullptr, true);
  training.begin_optimizer(here(), nullptr, false);  // its end is never told
  training.end_optimizer(here(), outer, false);
  testing::close(testing::open("mine"));
  train();
  end_of(*pass);
  EXPECT_EQ(tree(),
            "epoch[0](step[0](data_load optimizer_step(optimizer_step) mine forward backward "
            "optimizer_step))");
}

TEST_F(TrainingTree, ClosuresWithoutALoader) {
  Training& training = Training::of(here());
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t running = training.begin_optimizer(here(), nullptr, true);
    forward();
    backward();
    training.end_optimizer(here(), running, true);
  }
  testing::close(testing::open("after"));
  finish();
  EXPECT_EQ(tree(),
            "epoch[0](step[0](optimizer_step(forward backward)) "
            "step[1](optimizer_step(forward backward)) "
            "step[2](optimizer_step(forward backward) after))");
}

}  // namespace
}  // namespace sonde::hook
