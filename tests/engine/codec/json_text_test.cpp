#include "engine/codec/json_text.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "engine/base/json_writer.h"

namespace sonde::codec {
namespace {

std::string unescaped(std::string_view body) {
  base::Arena arena;
  std::string_view out;
  return unescape(body, arena, out) ? std::string(out) : "refused";
}

TEST(JsonText, UndoesEscapes) {
  EXPECT_EQ(unescaped("plain"), "plain");
  EXPECT_EQ(unescaped(""), "");
  EXPECT_EQ(unescaped(R"(\"\\\/\b\f\n\r\t)"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(unescaped(R"(\u00e9 \u20ac \ud83d\ude80)"), "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x9A\x80");
}

TEST(JsonText, LoneSurrogatesComeBackAsWritten) {
  EXPECT_EQ(unescaped(R"(\ud800)"), "\xED\xA0\x80");
  EXPECT_EQ(unescaped(R"(\ude80x)"), "\xED\xBA\x80x");
  EXPECT_EQ(unescaped(R"(\ud83d\u0041)"),
            "\xED\xA0\xBD"
            "A");
}

TEST(JsonText, RefusesIllegalEscapes) {
  for (const char* body : {"\\", "\\x", "\\u12", "\\u12g4", "ab\\"})
    EXPECT_EQ(unescaped(body), "refused") << body;
}

TEST(JsonText, WriterAndReaderAgree) {
  std::string all;
  for (int c = 0; c < 128; ++c) all += static_cast<char>(c);
  all += "\xC3\xA9\xF0\x9F\x9A\x80\xED\xA0\x80";
  base::JsonWriter out;
  out.string(all);
  std::string_view body;
  ASSERT_TRUE(string_body(out.view(), body));
  EXPECT_EQ(unescaped(body), all);
}

TEST(JsonText, Numbers) {
  std::int64_t integer = 0;
  EXPECT_TRUE(parse_integer("-12 ", integer));
  EXPECT_EQ(integer, -12);
  for (const char* token : {"", "1.0", "1e3", "9223372036854775808", "x", "+1"}) {
    EXPECT_FALSE(parse_integer(token, integer)) << token;
  }
  double real = 0;
  EXPECT_TRUE(parse_real("-1.5e3", real));
  EXPECT_EQ(real, -1500);
  EXPECT_TRUE(parse_real("1e999", real));
  EXPECT_EQ(real, __builtin_inf());
  const std::string tiny = "-0." + std::string(400, '0') + "1";
  EXPECT_TRUE(parse_real(tiny, real));
  EXPECT_EQ(real, 0) << "too small, though it has no exponent";
  EXPECT_TRUE(parse_real("-1" + std::string(400, '0') + "e-1", real));
  EXPECT_EQ(real, -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(parse_real("1e-999", real));
  EXPECT_EQ(real, 0);
  for (const char* token : {"", "NaN", "inf", "1.", ".5", "01", "0x1", "1e", "-"})
    EXPECT_FALSE(parse_real(token, real)) << token;
}

TEST(JsonText, ChecksObjects) {
  for (const char* text :
       {"{}", " { } ", R"({"a":1})", R"({"a":[1,2,{"b":null}],"c":"\u00e9","d":-0.5e+3})"}) {
    EXPECT_TRUE(is_legal_object(text)) << text;
  }
  for (const char* text :
       {"", "[]", "1", "{", "}", R"({"a"})", R"({"a":})", R"({"a":1,})", R"({,})", R"({"a":NaN})",
        R"({"a":01})", R"({"a":tru})", "{\"a\":\"\n\"}", R"({"a":"\x"})", R"({"a":[1})", "{} {}",
        R"({a:1})", R"({"a":"b)"}) {
    EXPECT_FALSE(is_legal_object(text)) << text;
  }
}

TEST(JsonText, DeepNestingIsRefusedWithoutAStackOverflow) {
  const std::string deep = "{\"a\":" + std::string(1'000'000, '[');
  EXPECT_FALSE(is_legal_object(deep));
}

TEST(JsonText, ForeignIdsAreStable) {
  base::Id id;
  ASSERT_TRUE(base::parse_hex("0123456789abcdef0123456789abcdef", id));
  EXPECT_EQ(id_from_text("0123456789abcdef0123456789abcdef"), id);
  EXPECT_EQ(id_from_text("span-1"), id_from_text("span-1"));
  EXPECT_NE(id_from_text("span-1"), id_from_text("span-2"));
  EXPECT_TRUE(id_from_text("x"));
}

TEST(JsonText, QuotesBareNonFiniteNumbers) {
  std::string out;
  EXPECT_TRUE(
      quote_non_finite(R"({"a":NaN,"NaN":-Infinity,"b":[Infinity,"Infinity \" NaN"]})", out));
  EXPECT_EQ(out, R"({"a":"NaN","NaN":"-Infinity","b":["Infinity","Infinity \" NaN"]})");
  EXPECT_FALSE(quote_non_finite(R"({"NaN":1})", out));
  EXPECT_FALSE(quote_non_finite("\"NaN", out)) << "a string that does not end";
  EXPECT_FALSE(quote_non_finite("\"\\", out));
}

}  // namespace
}  // namespace sonde::codec
