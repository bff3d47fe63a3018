#include "engine/base/put_off.h"

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "engine/base/swallowed.h"

namespace sonde::base {
namespace {

TEST(PutOff, NothingIsPutOffWhereNoCodeOfTheHostIsCalled) {
  EXPECT_FALSE(put_off([] {}));
  EXPECT_FALSE(has_put_off());
  const CallsHost calling;
  const CallsHost not_now(false);
  EXPECT_FALSE(put_off([] {}));
}

TEST(PutOff, AllThatWasPutOffIsDoneInItsOrder) {
  std::string done;
  {
    const CallsHost calling;
    EXPECT_TRUE(put_off([&] { done += "first "; }));
    EXPECT_TRUE(put_off([&] { done += put_off([] {}) ? "kept " : "second "; }));
    EXPECT_TRUE(has_put_off());
    EXPECT_EQ(done, "");
    run_put_off();
  }
  EXPECT_EQ(done, "first second ");
  EXPECT_FALSE(has_put_off());
}

TEST(PutOff, OneThatThrowsIsCountedAndTheNextHasItsTurn) {
  reset_swallowed();
  bool done = false;
  {
    const CallsHost calling;
    put_off([] { throw std::runtime_error("no"); });
    put_off([&] { done = true; });
    run_put_off();
  }
  EXPECT_TRUE(done);
  EXPECT_EQ(swallowed_errors().by_place.at("put-off"), 1u);
}

}  // namespace
}  // namespace sonde::base
