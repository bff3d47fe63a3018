#include "engine/hook/level.h"

#include "tests/engine/hook/training_tree.h"

namespace sonde::hook {
namespace {

TEST_F(TrainingTree, OpenLevelsAreFoundByName) {
  const std::uint32_t epoch = record::intern("epoch"), step = record::intern("step");
  EXPECT_EQ(open_level(here().stack, epoch), 0u);
  EXPECT_FALSE(epochs_announced(here().stack));
  const auto run = testing::open("fit", {.flags = record::kOwnsEpochs});
  const auto outer = testing::open("epoch");
  const auto batch = testing::open("batch");
  EXPECT_TRUE(epochs_announced(here().stack));
  EXPECT_EQ(open_level(here().stack, epoch), outer.sequence);
  EXPECT_EQ(open_level(here().stack, step), batch.sequence);
  testing::close(batch);
  EXPECT_EQ(open_level(here().stack, step), 0u);
  testing::close(outer);
  testing::close(run);
  EXPECT_EQ(open_level(here().stack, epoch), 0u);
  EXPECT_FALSE(epochs_announced(here().stack));
}

}  // namespace
}  // namespace sonde::hook
