#include "engine/model/ending.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

#include "tests/engine/support/spans.h"

namespace sonde::model {
namespace {

Span with(std::string_view attrs, std::uint64_t parent = 0) {
  Span span = sonde::testing::span(7, parent, "x", 0, 1);
  span.attrs = attrs;
  return span;
}

TEST(Ending, OfASpan) {
  EXPECT_EQ(ending_of(with("", 1)).kind, Ending::Kind::kReturned);
  EXPECT_FALSE(ending_of(with("", 1)).unusual());
  const Ending closed = ending_of(with(R"("sonde.closed_by":"parent")", 1));
  EXPECT_EQ(closed.kind, Ending::Kind::kClosed);
  EXPECT_EQ(closed.closed_by, "parent");
  EXPECT_TRUE(closed.unusual());
  const Ending boom = ending_of(
      with(R"("exception":"E","exception_message":"two\nlines","sonde.closed_by":"death")", 1));
  EXPECT_EQ(boom.kind, Ending::Kind::kException);
  EXPECT_EQ(boom.exception, "E");
  EXPECT_EQ(boom.message, "two\nlines") << "as the program gave it";
  EXPECT_EQ(boom.closed_by, "death");
  EXPECT_FALSE(ending_of(with(R"("ended_by":"exit")", 1)).unusual())
      << "an attribute of the program";
}

TEST(Ending, OfASession) {
  const Ending exited = ending_of(with(R"("ended_by":"exit","exit_code":3)"));
  EXPECT_EQ(exited.kind, Ending::Kind::kExit);
  EXPECT_EQ(exited.exit_code, 3);
  EXPECT_TRUE(exited.failed());
  const Ending unknown = ending_of(with(R"("ended_by":"exit")"));
  EXPECT_EQ(unknown.exit_code, std::nullopt);
  EXPECT_TRUE(unknown.unusual());
  EXPECT_FALSE(unknown.failed());
  const Ending killed = ending_of(with(R"("ended_by":"signal","signal":"SIGTERM")"));
  EXPECT_EQ(killed.kind, Ending::Kind::kSignal);
  EXPECT_EQ(killed.signal, "SIGTERM");
  EXPECT_TRUE(killed.failed());
  const Ending raised = ending_of(with(R"("exception":"E","ended_by":"exception")"));
  EXPECT_EQ(raised.kind, Ending::Kind::kException);
  EXPECT_TRUE(raised.failed());
  const Ending shut_down = ending_of(with(R"("exception":"E","ended_by":"shutdown")"));
  EXPECT_EQ(shut_down.kind, Ending::Kind::kShutDown);
  EXPECT_EQ(shut_down.exception, "E");
  EXPECT_TRUE(shut_down.unusual());
  EXPECT_FALSE(shut_down.failed());
  EXPECT_FALSE(ending_of(with(R"("ended_by":"return","exit_code":0)")).unusual());
}

TEST(Ending, ClosedByIsNoTextOfAnotherAttribute) {
  const Span span = with(R"("a":"sonde.closed_by","sonde.closed_by":"death")", 1);
  EXPECT_EQ(span.closed_by(), "death");
}

}  // namespace
}  // namespace sonde::model
