#include "engine/base/attr_writer.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "engine/base/json_members.h"
#include "engine/base/json_writer.h"

namespace sonde::base {
namespace {

TEST(AttrWriter, WritesMembersWithCommasBetween) {
  JsonWriter out;
  AttrWriter attrs(out);
  attrs.members("");
  EXPECT_EQ(out.view(), "");
  attrs.number("n", std::int64_t{-3});
  attrs.members("");
  attrs.members(R"("a":1,"b":[2])");
  attrs.json("j", "null");
  attrs.number("u", ~std::uint64_t{0});
  attrs.text("t", "x");
  EXPECT_EQ(out.view(), R"("n":-3,"a":1,"b":[2],"j":null,"u":18446744073709551615,"t":"x")");
}

TEST(AttrWriter, EscapesNamesAndText) {
  JsonWriter out;
  AttrWriter attrs(out);
  attrs.json("a\"b\\", "1");
  attrs.text("c\n", "\"");
  EXPECT_EQ(out.view(), R"("a\"b\\":1,"c\n":"\"")");
  EXPECT_EQ(find_member(out.view(), "a\"b\\").integer(), 1);
  EXPECT_EQ(find_member(out.view(), "c\n").text(), "\"");
}

}  // namespace
}  // namespace sonde::base
