#include "engine/base/json_members.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sonde::base {
namespace {

TEST(JsonMembers, AreFoundByTheirWholeName) {
  const std::string_view all = R"("a":1,"text":"b\":2,\"a","o":{"b":[1,{"c":3}],"d":"}"},"b":true)";
  EXPECT_EQ(find_member(all, "a").raw(), "1");
  EXPECT_EQ(find_member(all, "b").raw(), "true") << "not the one in another value";
  EXPECT_FALSE(find_member(all, "c"));
  EXPECT_FALSE(find_member(all, "tex"));
  EXPECT_FALSE(find_member("", "a"));
  EXPECT_EQ(find_member(all, "o").raw(), R"({"b":[1,{"c":3}],"d":"}"})");
  EXPECT_EQ(find_member(all, "text").text(), R"(b":2,"a)");
}

TEST(JsonMembers, ComeInOrderWithSpacesAnywhere) {
  JsonMembers all(" \"a\" : 1 ,\n\t\"b\":[ 2 , 3 ] , \"c\" : \"x\" ");
  std::vector<std::string> values;
  while (all.next()) values.emplace_back(all.value().raw());
  EXPECT_EQ(values, (std::vector<std::string>{"1", "[ 2 , 3 ]", "\"x\""}));
}

TEST(JsonMembers, ValuesHaveTypes) {
  const std::string_view all =
      R"("n":null,"t":true,"f":false,"i":-12,"r":1.5,"e":1e3,"s":"x","o":{},"l":[1],"bad":")";
  for (const std::string_view name : {"n", "t", "f", "i", "r", "e", "o", "l", "bad"}) {
    EXPECT_EQ(find_member(all, name).text(), "") << name;
    EXPECT_FALSE(find_member(all, name).is("")) << name;
  }
  EXPECT_EQ(find_member(all, "s").text(), "x");
  EXPECT_TRUE(find_member(all, "t").is_true());
  EXPECT_FALSE(find_member(all, "f").is_true());
  EXPECT_EQ(find_member(all, "i").integer(), -12);
  EXPECT_EQ(find_member(all, "r").integer(7), 7) << "no integer";
  EXPECT_EQ(find_member(all, "i").text(), "") << "no text";
}

TEST(JsonMembers, EscapesAreUndoneInTextAndInNames) {
  const std::string_view all = R"("k\u0065y":"a\n\"\\\/\u00e9\ud83d\ude80","lone":"\ud800")";
  EXPECT_EQ(find_member(all, "key").text(), "a\n\"\\/\xC3\xA9\xF0\x9F\x9A\x80");
  EXPECT_EQ(find_member(all, "lone").text(), "\xED\xA0\x80");
  EXPECT_TRUE(find_member(all, "key").is("a\n\"\\/\xC3\xA9\xF0\x9F\x9A\x80"));
  EXPECT_FALSE(find_member(all, "key").is("a\n"));
  EXPECT_FALSE(find_member(all, "key").is("a\n\"\\/\xC3\xA9\xF0\x9F\x9A\x80x"));
  EXPECT_EQ(find_member(R"("a":"\x")", "a").text(), "") << "an illegal escape";
}

TEST(JsonMembers, DamagedTextIsNoDanger) {
  for (const std::string_view damaged : {"\"", "\"a", "\"a\"", "\"a\":", "\"a\":\"\\", "\"a\":[",
                                         ",", ",,", "{\"b\":1}", "b:1", "\"a\":}],\"c", "\"a\\"}) {
    EXPECT_FALSE(find_member(damaged, "b")) << damaged;
    for (JsonMembers all(damaged); all.next();) all.value().text();
  }
  EXPECT_EQ(find_member("\"a\":\"", "a").text(), "");
}

TEST(JsonMembers, EndWithTheirObject) {
  EXPECT_FALSE(find_member(R"("a":1},{"b":2})", "b"));
  EXPECT_FALSE(find_member(R"("a":{"c":3}},{"b":2})", "b"));
  EXPECT_EQ(find_member(R"("a":1},{"b":2})", "a").integer(), 1);
  EXPECT_EQ(find_member(R"("a":"x","b":[1,2]}])", "b").raw(), "[1,2]");
}

}  // namespace
}  // namespace sonde::base
