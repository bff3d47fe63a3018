#include "engine/report/ending.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/model/ending.h"
#include "engine/model/trace.h"
#include "tests/engine/support/spans.h"

namespace sonde::report {
namespace {

model::Span with(std::string_view attrs, std::uint64_t parent = 0) {
  model::Span span = sonde::testing::span(7, parent, "x", 0, 1);
  span.attrs = attrs;
  return span;
}

std::string attr_text(const model::Span& span, std::string_view name) {
  return on_one_line(span.attr(name).text());
}

std::string words_of(const model::Span& span) { return ending_text(model::ending_of(span)); }

TEST(Attr, TextIsShownOnOneLine) {
  EXPECT_EQ(attr_text(with(R"("text":"b\":2,\"a")"), "text"), R"(b":2,"a)");
  EXPECT_EQ(attr_text(with(R"("text":"a\nb\u001b\u00e9")"), "text"), "a\\nb\\x1b\xC3\xA9");
  EXPECT_EQ(attr_text(with(R"("a":1)"), "a"), "") << "no text";
  EXPECT_EQ(attr_text(with("\"a\":\""), "a"), "");
}

TEST(EndingText, OfASpan) {
  EXPECT_EQ(words_of(with("", 1)), "");
  EXPECT_EQ(words_of(with(R"("sonde.closed_by":"parent")", 1)), "closed by parent");
  const std::string boom = R"("exception":"RuntimeError","exception_message":"boom")";
  EXPECT_EQ(words_of(with(boom, 1)), "ended by RuntimeError: boom");
  EXPECT_EQ(words_of(with(boom + R"(,"sonde.closed_by":"shutdown")", 1)),
            "ended by RuntimeError: boom");
  EXPECT_EQ(words_of(with(boom + R"(,"sonde.closed_by":"death")", 1)),
            "ended by RuntimeError: boom, closed by death");
  EXPECT_EQ(words_of(with(R"("exception":"KeyboardInterrupt","exception_message":"")", 1)),
            "ended by KeyboardInterrupt");
  EXPECT_EQ(words_of(with(R"("exception":"E","exception_message":"two\nlines")", 1)),
            "ended by E: two\\nlines");
  EXPECT_EQ(words_of(with(R"("ended_by":"exit")", 1)), "") << "an attribute of the program";
}

TEST(EndingText, OfASession) {
  EXPECT_EQ(words_of(with(R"("ended_by":"return","exit_code":0)")), "");
  EXPECT_EQ(words_of(with(R"("ended_by":"shutdown")")), "");
  EXPECT_EQ(words_of(with(R"("exception":"E","ended_by":"shutdown")")), "shut down after E");
  EXPECT_EQ(words_of(with(R"("ended_by":"exit","exit_code":3)")), "exit code 3");
  EXPECT_EQ(words_of(with(R"("ended_by":"exit")")), "exit code not known");
  EXPECT_EQ(words_of(with(R"("ended_by":"signal","signal":"SIGTERM")")), "ended by SIGTERM");
  EXPECT_EQ(words_of(with(R"("exception":"E","exception_message":"m","ended_by":"exception")")),
            "ended by E: m");
  EXPECT_EQ(words_of(with(R"("exception":"E","exception_message":"m","ended_by":"return")")),
            "uncaught E: m");
  EXPECT_EQ(words_of(with(R"("exception":"E","ended_by":"exit","exit_code":1)")),
            "exit code 1, uncaught E");
  EXPECT_EQ(words_of(with(R"("sonde.closed_by":"death")")), "closed by death");
}

TEST(EndingText, OfASessionThatEndedInAnOrdinaryWay) {
  const auto how = [](std::string_view attrs) {
    return session_ending_text(model::ending_of(with(attrs)));
  };
  EXPECT_EQ(how(R"("ended_by":"return","exit_code":0)"), "returned");
  EXPECT_EQ(how(R"("ended_by":"shutdown")"), "ended by the program");
  EXPECT_EQ(how(R"("ended_by":"exit","exit_code":3)"), "exit code 3");
}

}  // namespace
}  // namespace sonde::report
