#include "engine/session/outgoing_batch.h"

#include <cstddef>

#include <gtest/gtest.h>

namespace sonde::session {
namespace {

constexpr std::size_t kLarge = 1u << 20, kSmall = 64u << 10;

TEST(OutgoingBatch, ShrinkGivesBackWhatALargeBatchTook) {
  OutgoingBatch batch;
  batch.records.spans.resize(10'000);
  EXPECT_GT(batch.json().size(), kLarge);
  batch.clear();
  EXPECT_GT(batch.bytes(), kLarge) << "the buffers stay for the next batch";
  batch.shrink();
  EXPECT_LT(batch.bytes(), kSmall);
}

TEST(OutgoingBatch, ShrinkGivesBackRecordsThatNoSinkWantedAsJson) {
  OutgoingBatch batch;
  batch.records.spans.resize(10'000);
  batch.earlier_marks.marks.resize(10'000);
  batch.open_scopes.arena.allocate(kLarge);
  batch.clear();
  EXPECT_GT(batch.bytes(), kLarge);
  batch.shrink();
  EXPECT_LT(batch.bytes(), kSmall);
}

TEST(OutgoingBatch, ShrinkKeepsSmallBuffers) {
  OutgoingBatch batch;
  batch.records.spans.resize(100);
  batch.clear();
  const std::size_t before = batch.bytes();
  batch.shrink();
  EXPECT_EQ(batch.bytes(), before);
}

}  // namespace
}  // namespace sonde::session
