#include "engine/base/json_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace sonde::base {
namespace {

std::string string_of(std::string_view text) {
  JsonWriter out;
  out.string(text);
  return out.str();
}

template <typename Number>
std::string number_of(Number value) {
  JsonWriter out;
  out.number(value);
  return out.str();
}

TEST(JsonWriter, PlainTextIsQuoted) {
  EXPECT_EQ(string_of(""), "\"\"");
  EXPECT_EQ(string_of({}), "\"\"");  // no text at all: a null pointer
  EXPECT_EQ(string_of("epoch"), "\"epoch\"");
}

TEST(JsonWriter, EscapesWhatJsonForbids) {
  EXPECT_EQ(string_of("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(string_of("\n\t\r\b\x01\x7F"), R"("\n\t\r\u0008\u0001\u007f")");
  EXPECT_EQ(string_of(std::string_view("\0", 1)), R"("\u0000")");
}

TEST(JsonWriter, Utf8IsKept) {
  EXPECT_EQ(string_of("w\xC3\xA4rmup \xF0\x9F\x9A\x80"), "\"w\xC3\xA4rmup \xF0\x9F\x9A\x80\"");
}

TEST(JsonWriter, LoneSurrogateBecomesItsEscape) {
  EXPECT_EQ(string_of("x\xED\xA0\x80y"), R"("x\ud800y")");
  EXPECT_EQ(string_of("\xED\xBF\xBF"), R"("\udfff")");
}

TEST(JsonWriter, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(string_of("\xFF"), R"("\ufffd")");
  EXPECT_EQ(string_of("\xC3"), R"("\ufffd")");                                // cut short
  EXPECT_EQ(string_of("\xC0\x80"), R"("\ufffd\ufffd")");                      // overlong
  EXPECT_EQ(string_of("\xF5\x80\x80\x80"), R"("\ufffd\ufffd\ufffd\ufffd")");  // beyond Unicode
}

TEST(JsonWriter, Integers) {
  EXPECT_EQ(number_of(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(number_of(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(number_of(std::int64_t{0}), "0");
}

TEST(JsonWriter, AFloatLooksLikeAFloat) {
  EXPECT_EQ(number_of(1.0), "1.0");
  EXPECT_EQ(number_of(-0.0), "-0.0");
  EXPECT_EQ(number_of(0.5234), "0.5234");
  EXPECT_EQ(number_of(1e300), "1e+300");
  EXPECT_EQ(number_of(0.1), "0.1");
}

TEST(JsonWriter, FloatsComeBackExactly) {
  for (const double value : {0.1 + 0.2, 5e-324, 1.7976931348623157e308, 123456789.123456789}) {
    EXPECT_EQ(std::strtod(number_of(value).c_str(), nullptr), value);
  }
}

TEST(JsonWriter, NonFiniteFloatsAreStrings) {
  EXPECT_EQ(number_of(std::nan("")), "\"NaN\"");
  EXPECT_EQ(number_of(-std::nan("")), "\"NaN\"");
  EXPECT_EQ(number_of(std::numeric_limits<double>::infinity()), "\"Infinity\"");
  EXPECT_EQ(number_of(-std::numeric_limits<double>::infinity()), "\"-Infinity\"");
}

TEST(JsonWriter, GrowsAndIsReused) {
  JsonWriter out;
  const std::string text(100'000, 'x');
  out.string(text);
  EXPECT_EQ(out.size(), text.size() + 2);
  out.clear();
  EXPECT_TRUE(out.empty());
  out.hex({0x0123456789abcdefu, 1});
  out.boolean(true);
  out.null();
  EXPECT_EQ(out.view(), "\"0123456789abcdef0000000000000001\"truenull");
}

}  // namespace
}  // namespace sonde::base
