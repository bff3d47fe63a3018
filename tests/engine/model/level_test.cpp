#include "engine/model/level.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/engine/support/spans.h"

namespace sonde::model {
namespace {

using sonde::testing::span;

// session > epoch > step > forward > attention; session > load, epoch > log
const std::vector<Span> kRun = {
    span(1, 0, "session", 0, kNone), span(2, 1, "epoch", 0, 9),      span(3, 2, "step", 0, 5),
    span(4, 3, "forward", 0, 4),     span(5, 4, "attention", 0, 3),  span(6, 1, "load", 0, 1),
    span(7, 2, "log", 5, 6),         span(8, 2, "validation", 6, 8), span(9, 8, "forward", 6, 7),
    span(10, 8, "metric", 7, 8),
};

Level level(const Span& wanted) {
  Surroundings around;
  for (const Span& each : kRun) around.know(each);
  Place place{wanted.parent_id};
  around.follow(place);
  EXPECT_TRUE(place.settled());
  return level_of(wanted.name, place);
}

TEST(Level, IsThatOfTheNameOrOfWhatIsAround) {
  const std::vector<Level> expected = {Level::kEpoch, Level::kEpoch, Level::kStep, Level::kAll,
                                       Level::kAll,   Level::kEpoch, Level::kStep, Level::kEpoch,
                                       Level::kAll,   Level::kStep};
  for (std::size_t i = 0; i < kRun.size(); ++i) EXPECT_EQ(level(kRun[i]), expected[i]) << i;
}

TEST(Level, IsNotSettledBeforeEverythingAroundIsKnown) {
  Surroundings around;
  around.know(kRun[3]);
  Place in_forward{kRun[4].parent_id}, in_epoch{kRun[6].parent_id};
  around.follow(in_forward);
  EXPECT_TRUE(in_forward.settled());  // in a part of a step, whatever is around that
  around.follow(in_epoch);
  EXPECT_FALSE(in_epoch.settled());
  around.forget();
  around.know(kRun[1]);
  around.know(kRun[0]);
  around.follow(in_epoch);
  EXPECT_TRUE(in_epoch.settled());
  EXPECT_EQ(level_of("log", in_epoch), Level::kStep);
}

TEST(Level, ACircleEnds) {
  Surroundings around;
  around.know(span(1, 2, "a", 0, 1));
  around.know(span(2, 1, "b", 0, 1));
  Place place{span(3, 1, "c", 0, 1).parent_id};
  around.follow(place);
  EXPECT_FALSE(place.settled());
}

TEST(LineFilter, TakesALevelAndAGlob) {
  const Place top, deep{{}, true, true};
  EXPECT_TRUE((LineFilter{Level::kEpoch, ""}.shows("epoch", top)));
  EXPECT_FALSE((LineFilter{Level::kEpoch, ""}.shows("step", top)));
  EXPECT_TRUE((LineFilter{Level::kStep, ""}.shows("step", deep)));
  EXPECT_FALSE((LineFilter{Level::kStep, ""}.shows("own", deep)));
  EXPECT_TRUE((LineFilter{Level::kAll, ""}.shows("own", deep)));
  EXPECT_TRUE((LineFilter{Level::kAll, "val*"}.shows("validation", top)));
  EXPECT_FALSE((LineFilter{Level::kAll, "val*"}.shows("interval", top)));
}

}  // namespace
}  // namespace sonde::model
