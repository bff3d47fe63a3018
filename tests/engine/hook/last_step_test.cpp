// Where epochs end, and which optimizer step is the last of one.
#include "engine/hook/last_step.h"

#include "engine/base/clock.h"
#include "tests/engine/hook/training_tree.h"
#include "tests/engine/support/slots.h"

namespace sonde::hook {
namespace {

struct Ended {
  std::uint64_t sequence;
  std::int64_t index;
};
std::vector<Ended> g_ended;

class LastSteps : public TrainingTree {
 protected:
  void SetUp() override {
    TrainingTree::SetUp();
    g_ended.clear();
    Training::on_epoch_end(
        [](const EndedEpoch& epoch) noexcept { g_ended.push_back({epoch.sequence, epoch.index}); });
  }
  void TearDown() override { Training::on_epoch_end(nullptr); }

  static Iterator iterate(Loader& loader, std::uint64_t length) {
    auto pass = loader.iterate();
    pass->set_length(length);
    return pass;
  }
  static bool asks(const void* optimizer) {
    Training& training = Training::of(here());
    return training.measures_step(optimizer) && training.steps().is_likely_last(optimizer);
  }
  // Trains with one batch. Was the optimizer step on it the last?
  static bool step(const void* optimizer = nullptr) {
    forward();
    backward();
    const bool last = asks(optimizer);
    optimize();
    return last;
  }
  static std::vector<std::int64_t> indexes() {
    std::vector<std::int64_t> found;
    for (const Ended& each : g_ended) found.push_back(each.index);
    return found;
  }
};

using Indexes = std::vector<std::int64_t>;

TEST_F(LastSteps, LengthOfTheLoaderTells) {
  Loader loader;
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto pass = iterate(loader, 3);
    for (int batch = 0; batch < 3; ++batch) {
      fetch(*pass);
      EXPECT_EQ(step(), batch == 2);
    }
    EXPECT_EQ(g_ended.size(), static_cast<std::size_t>(epoch));
    end_of(*pass);
  }
  EXPECT_EQ(indexes(), (Indexes{0, 1}));
}

TEST_F(LastSteps, WithoutALengthItIsTheOneOfTheEpochBefore) {
  Loader loader;
  for (int epoch = 0; epoch < 3; ++epoch) {
    auto pass = loader.iterate();
    for (int batch = 0; batch < 3; ++batch) {
      fetch(*pass);
      EXPECT_EQ(step(), epoch > 0 && batch == 2);
    }
    end_of(*pass);
  }
}

TEST_F(LastSteps, OptimizersAreLearntByThemselves) {
  Loader loader;
  int often = 0, rarely = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto pass = loader.iterate();
    for (int batch = 0; batch < 4; ++batch) {
      fetch(*pass);
      EXPECT_EQ(step(&often), epoch > 0 && batch == 3);
      if (batch % 2 == 0) {
        EXPECT_EQ(step(&rarely), epoch > 0 && batch == 2);
      }
    }
    end_of(*pass);
  }
}

TEST_F(LastSteps, LoopInsideTheLastBatchIsBounded) {
  Loader loader;
  auto pass = iterate(loader, 1);
  fetch(*pass);
  int due = 0;
  for (int i = 0; i < 100; ++i) due += step() ? 1 : 0;
  EXPECT_EQ(due, 4);
}

TEST_F(LastSteps, ValidationIsNoEpochAndHidesNoLastBatch) {
  Loader loader, other;
  auto pass = iterate(loader, 2);
  fetch(*pass);
  EXPECT_FALSE(step());
  fetch(*pass);
  auto check = iterate(other, 5);
  fetch(*check, Fetched::kItem, true);
  forward(Mode::kEval);
  end_of(*check);
  EXPECT_TRUE(step());
  end_of(*pass);
  EXPECT_EQ(indexes(), (Indexes{0}));
}

TEST_F(LastSteps, LookIsNoEpoch) {
  Loader loader;
  auto look = iterate(loader, 1);
  fetch(*look);
  drop(std::move(look));
  EXPECT_TRUE(g_ended.empty());
}

TEST_F(LastSteps, DroppedIteratorEndsItsEpoch) {
  Loader loader;
  auto pass = iterate(loader, 5);
  fetch(*pass);
  step();
  EXPECT_TRUE(g_ended.empty());
  drop(std::move(pass));
  EXPECT_EQ(indexes(), (Indexes{0}));
}

TEST_F(LastSteps, EpochsWithoutALoaderEndByCount) {  // three steps each
  Indexes last;
  for (int i = 0; i < 8; ++i) {
    if (step()) last.push_back(i);
  }
  // The first iteration is outside the epoch: nothing shows yet that there is a loop.
  EXPECT_EQ(last, (Indexes{2, 5}));
  EXPECT_EQ(indexes(), (Indexes{0, 1}));
}

TEST_F(LastSteps, TurnsOfTheApiTell) {
  Training& training = Training::of(here());
  const auto turn = [&](std::int64_t index, bool last) {
    const auto batch = testing::open("batch");
    training.begin_turn(index, last);
    const bool due = step();
    testing::close(batch);
    return due;
  };
  EXPECT_FALSE(turn(0, false));
  EXPECT_TRUE(turn(1, true));
  EXPECT_EQ(training.step_index(), 1);
  training.end_epoch();
  EXPECT_FALSE(turn(0, false));
}

TEST_F(LastSteps, StepOfAnOptimizerInsideAnotherIsNone) {
  Loader loader;
  auto pass = iterate(loader, 1);
  fetch(*pass);
  Training& training = Training::of(here());
  EXPECT_TRUE(asks(nullptr));
  const std::uint64_t running = training.begin_optimizer(here(), nullptr, false);
  EXPECT_FALSE(training.measures_step(this));
  training.end_optimizer(here(), running, true);
}

TEST_F(LastSteps, NumberOfTheStepIsThatOfTheTree) {
  Loader loader;
  auto pass = iterate(loader, 2);
  fetch(*pass);
  step();
  fetch(*pass);
  step();
  EXPECT_EQ(Training::of(here()).step_index(), 1);
  end_of(*pass);  // the fetch that finds the end had begun another
  EXPECT_EQ(Training::of(here()).step_index(), 1);
}

TEST_F(LastSteps, OpenScopesKnowWhetherTheyAreEpochs) {
  Loader loader;
  auto pass = iterate(loader, 2);
  fetch(*pass);
  const record::Lane& stack = here().stack;
  const std::uint64_t sequence = testing::outermost_sequence(stack);
  EXPECT_TRUE(Training::is_doubtful(sequence));  // it may be a look
  step();
  EXPECT_FALSE(Training::is_doubtful(sequence));
  EXPECT_FALSE(Training::is_doubtful(12345));  // not one of the hooks'
}

// -- epochs that may be cut short --

using Steps = std::vector<std::uint64_t>;

// The steps of an epoch of this length that are due, where measuring one takes `cost` ns.
Steps due_steps(LastStep& steps, std::uint64_t length, std::uint64_t cost,
                const void* optimizer = nullptr) {
  Steps due;
  for (std::uint64_t i = 1; i <= length; ++i) {
    if (!steps.is_due(optimizer, false)) continue;
    due.push_back(i);
    const std::uint64_t now = base::monotonic_ns();
    steps.measured(optimizer, now - cost, now);
  }
  return due;
}

constexpr std::uint64_t kHour = 3'600'000'000'000;

TEST(Samples, FirstStepOfEveryEpochIsDueAndTheExpectedOne) {
  LastStep steps;
  EXPECT_EQ(due_steps(steps, 1000, kHour), (Steps{1}));
  EXPECT_FALSE(steps.is_likely_last(nullptr));
  steps.end_epoch();
  EXPECT_EQ(due_steps(steps, 1000, kHour), (Steps{1, 1000}));
  EXPECT_TRUE(steps.is_likely_last(nullptr));
  steps.end_epoch();
  EXPECT_EQ(due_steps(steps, 2000, kHour), (Steps{1, 1000}));
}

TEST(Samples, WhatCostsNothingIsMeasuredAtEveryStep) {
  LastStep steps;
  EXPECT_EQ(due_steps(steps, 5, 0), (Steps{1, 2, 3, 4, 5}));
}

TEST(Samples, MeasuringTakesItsPartOfTheTimeAndNoMore) {
  LastStep steps;
  const std::uint64_t begin = base::monotonic_ns(), cost = 1000;
  std::size_t due = 0;
  for (int round = 0; due < 5 && round < 100'000; ++round)
    due += due_steps(steps, 1000, cost).size();
  const std::uint64_t passed = base::monotonic_ns() - begin;
  EXPECT_GE(due, 5u);
  EXPECT_LE((due - 1) * 500 * cost, passed);
}

TEST(Samples, StepThatCouldNotBeMeasuredIsDueAgain) {
  LastStep steps;
  Steps due;
  for (std::uint64_t i = 1; i <= 9; ++i) {
    if (steps.is_due(nullptr, false)) due.push_back(i);
  }
  EXPECT_EQ(due, (Steps{1, 2, 4, 8}));
}

TEST(Samples, AllAreDueAgainWhenWhatWasMeasuredIsWorthNothing) {
  LastStep steps;
  EXPECT_EQ(due_steps(steps, 5, kHour), (Steps{1}));
  steps.measure_again();
  EXPECT_EQ(due_steps(steps, 5, kHour), (Steps{1}));
  EXPECT_EQ(steps.steps(nullptr), 10u);
}

TEST(Samples, AllOptimizersThatLiveAreMeasured) {
  LastStep steps;
  const std::vector<char> optimizers(1000);
  std::size_t due = 0;
  for (const char& each : optimizers) due += due_steps(steps, 2, kHour, &each).size();
  EXPECT_EQ(due, optimizers.size());
  EXPECT_EQ(steps.counts().size(), optimizers.size());
  steps.end_epoch();
  due = 0;
  for (const char& each : optimizers) due += due_steps(steps, 2, kHour, &each).size();
  EXPECT_EQ(due, 2 * optimizers.size());  // the last, too
}

TEST(Samples, OfOptimizersThatComeAndGoSomeAreMeasured) {
  LastStep::on_met(nullptr);  // those of other tests are forgotten
  LastStep steps;
  const std::vector<char> optimizers(1000);
  std::size_t due = 0;
  for (const char& each : optimizers) {
    due += due_steps(steps, 2, kHour, &each).size();
    LastStep::gone(&each);
  }
  EXPECT_EQ(due, 65u);
}

TEST(Samples, AnotherOptimizerAtTheSameAddressIsAnother) {
  static int met = 0;
  LastStep::on_met([](const void*) noexcept { ++met; });
  LastStep steps;
  EXPECT_EQ(due_steps(steps, 3, kHour), (Steps{1}));
  EXPECT_EQ(met, 1);
  LastStep::gone(nullptr);
  EXPECT_EQ(due_steps(steps, 2, kHour), (Steps{1}));
  EXPECT_EQ(met, 2);
  EXPECT_EQ(steps.steps(nullptr), 2u);
  LastStep::on_met(nullptr);
}

}  // namespace
}  // namespace sonde::hook
