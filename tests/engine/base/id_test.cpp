#include "engine/base/id.h"

#include <gtest/gtest.h>

#include <string>
#include <unordered_set>

namespace sonde::base {
namespace {

std::string hex_of(const Id& id) {
  std::string out(32, '?');
  write_hex(id, out.data());
  return out;
}

TEST(Id, HexThereAndBack) {
  const Id id{0x0123456789abcdefu, 0xfedcba9876543210u};
  EXPECT_EQ(hex_of(id), "0123456789abcdeffedcba9876543210");
  Id back;
  ASSERT_TRUE(parse_hex("0123456789abcdeffedcba9876543210", back));
  EXPECT_EQ(back, id);
  ASSERT_TRUE(parse_hex("0123456789ABCDEFFEDCBA9876543210", back));
  EXPECT_EQ(back, id);
}

TEST(Id, RefusesEverythingElse) {
  Id id{7, 7};
  EXPECT_FALSE(parse_hex("", id));
  EXPECT_FALSE(parse_hex("0123", id));
  EXPECT_FALSE(parse_hex(std::string(33, '0'), id));
  for (int i = 0; i < 32; ++i) {
    for (const char c : {'g', '/', ':', '@', '`', 'G', '\0', '\xFF', ' '}) {
      std::string text(32, 'a');
      text[static_cast<std::size_t>(i)] = c;
      EXPECT_FALSE(parse_hex(text, id));
    }
  }
  EXPECT_EQ(id, (Id{7, 7})) << "a refused text leaves the id alone";
}

TEST(Id, SequencesOfOneSessionDiffer) {
  const Id key = random_id();
  std::unordered_set<std::string> seen;
  for (std::uint64_t sequence = 1; sequence <= 10'000; ++sequence)
    seen.insert(hex_of(make_id(key, sequence)));
  EXPECT_EQ(seen.size(), 10'000u);
  EXPECT_FALSE(make_id(key, 0)) << "sequence 0 is none";
}

TEST(Id, RandomIdsDiffer) { EXPECT_NE(random_id(), random_id()); }

}  // namespace
}  // namespace sonde::base
