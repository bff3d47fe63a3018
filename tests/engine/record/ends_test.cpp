#include "engine/record/ends.h"

#include <thread>

#include <gtest/gtest.h>

#include "engine/record/scope.h"
#include "tests/engine/support/ring_tap.h"

namespace sonde::record {
namespace {

using testing::RingTap;

class Ends : public ::testing::Test {
 protected:
  void SetUp() override { open_gate(); }
};

TEST_F(Ends, ParentNotesTheEndOfKeptScopesOnly) {
  RingTap tap;
  const ScopeHandle outer = testing::open("outer");
  const ScopeHandle plain = testing::open("plain");
  const ScopeHandle kept = testing::open("kept", {.kept = true});
  testing::close(outer);
  EXPECT_EQ(noted_end(plain.sequence), 0u);
  EXPECT_EQ(noted_end(outer.sequence), 0u);
  const std::uint64_t end = noted_end(kept.sequence);
  EXPECT_NE(end, 0u);
  const model::Batch batch = tap.take();
  EXPECT_EQ(testing::find_span(batch.spans, "kept")->end_ns,
            base::to_wall_ns(Journal::instance().header().anchor, end));
  EXPECT_EQ(take_end(kept.sequence), end);
  EXPECT_EQ(take_end(kept.sequence), 0u);
}

TEST_F(Ends, WhoClosesItsOwnScopeNotesNothing) {
  RingTap tap;
  const ScopeHandle kept = testing::open("kept", {.kept = true});
  std::thread([&] { EXPECT_TRUE(testing::close(kept)); }).join();
  EXPECT_EQ(noted_end(kept.sequence), 0u);
}

TEST_F(Ends, EndOfTheThreadIsNoted) {
  RingTap tap;
  ScopeHandle kept;
  std::thread([&] { kept = testing::open("kept", {.kept = true}); }).join();
  EXPECT_NE(take_end(kept.sequence), 0u);
}

}  // namespace
}  // namespace sonde::record
