#include "engine/codec/amend.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "engine/base/id.h"

namespace sonde::codec {
namespace {

constexpr base::Id kSession = {1, 2};

std::string batch(std::string_view attrs) {
  return R"({"spans":[{"id":"00000000000000010000000000000003","attrs":{"ended_by":"exit"}},)"
         R"({"id":"00000000000000010000000000000002","name":"s","attrs":{)" +
         std::string(attrs) + R"(}}]})";
}

TEST(Amend, ExitStatusStandsBesideWhatEndedIt) {
  EXPECT_EQ(with_exit_status(batch(R"("ended_by":"exit","k":1)"), kSession, 3),
            batch(R"("ended_by":"exit","exit_code":3,"k":1)"));
  EXPECT_EQ(with_exit_status(batch(R"("a":"b","ended_by":"exception")"), kSession, 1),
            batch(R"("a":"b","ended_by":"exception","exit_code":1)"));
  EXPECT_EQ(with_exit_status(batch(R"("ended_by":"exit")"), kSession, 256 + 7),
            batch(R"("ended_by":"exit","exit_code":7)"));
}

TEST(Amend, ExitStatusOfZeroIsAReturn) {
  for (const char* before : {R"("ended_by":"exit")", R"("ended_by":"exception")"})
    EXPECT_EQ(with_exit_status(batch(before), kSession, 0),
              batch(R"("ended_by":"return","exit_code":0)"));
}

TEST(Amend, AnotherSpanIsLeftAlone) {
  const std::string before =
      R"({"spans":[{"id":"00000000000000010000000000000002","attrs":{"text":"\"ended_by\":\"x\""},)"
      R"("rank":0},{"id":"00000000000000010000000000000003","attrs":{"ended_by":"exit"}}]})";
  EXPECT_EQ(with_exit_status(before, kSession, 3), "");
  const std::string without =
      R"({"spans":[{"id":"00000000000000010000000000000002","rank":0},)"
      R"({"id":"00000000000000010000000000000003","attrs":{"ended_by":"exit"}}]})";
  EXPECT_EQ(with_exit_status(without, kSession, 3), "");
}

TEST(Amend, NothingIsMadeUp) {
  EXPECT_EQ(with_exit_status(batch(R"("k":1)"), kSession, 3), "");
  EXPECT_EQ(with_exit_status(batch(R"("ended_by":"exit")"), {4, 4}, 3), "");
  EXPECT_EQ(with_exit_status("", kSession, 3), "");
}

}  // namespace
}  // namespace sonde::codec
