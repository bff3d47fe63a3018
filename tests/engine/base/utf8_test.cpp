#include "engine/base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace sonde::base {
namespace {

TEST(Utf8, IsCutBetweenCodePoints) {
  const std::string_view text = "a\xC3\xA9\xF0\x9F\x9A\x80z";
  EXPECT_EQ(cut_utf8(text, 100), text);
  EXPECT_EQ(cut_utf8(text, text.size()), text);
  EXPECT_EQ(cut_utf8(text, 7), "a\xC3\xA9\xF0\x9F\x9A\x80");
  for (const std::size_t bytes : {3u, 4u, 5u, 6u}) EXPECT_EQ(cut_utf8(text, bytes), "a\xC3\xA9");
  EXPECT_EQ(cut_utf8(text, 2), "a");
  EXPECT_EQ(cut_utf8(text, 0), "");
  EXPECT_EQ(cut_utf8("\x80\x80\x80", 2), "") << "no text at all";
}

TEST(Utf8, CodePointsOfEveryLength) {
  const auto written = [](std::uint32_t code) {
    char bytes[4];
    return std::string(bytes, write_utf8(code, bytes));
  };
  EXPECT_EQ(written(0x7F), "\x7F");
  EXPECT_EQ(written(0x80), "\xC2\x80");
  EXPECT_EQ(written(0x7FF), "\xDF\xBF");
  EXPECT_EQ(written(0x800), "\xE0\xA0\x80");
  EXPECT_EQ(written(0xFFFF), "\xEF\xBF\xBF");
  EXPECT_EQ(written(0x10000), "\xF0\x90\x80\x80");
  EXPECT_EQ(written(0x10FFFF), "\xF4\x8F\xBF\xBF");
}

TEST(Utf8, DecodesWhatIsWellFormed) {
  const auto decoded = [](std::string_view text) {
    std::uint32_t code = 0;
    const std::size_t length = decode_utf8(text, 0, code);
    return std::pair(length, length == 0 ? 0 : code);
  };
  using Pair = std::pair<std::size_t, std::uint32_t>;
  EXPECT_EQ(decoded("a"), Pair(1, 'a'));
  EXPECT_EQ(decoded("\xC3\xBC"), Pair(2, 0xFC));
  EXPECT_EQ(decoded("\xE2\x82\xAC."), Pair(3, 0x20AC));
  EXPECT_EQ(decoded("\xF0\x9F\x98\x80"), Pair(4, 0x1F600));
  EXPECT_EQ(decoded("\xED\xA0\x80"), Pair(3, 0xD800)) << "a surrogate";
  for (const char* bad : {"\x80", "\xC3", "\xC0\x80", "\xE0\x80\x80", "\xF4\x90\x80\x80", "\xFF"})
    EXPECT_EQ(decoded(bad).first, 0u) << bad;
}

}  // namespace
}  // namespace sonde::base
