#include "engine/snapshot/safetensors.h"

#include <string>

#include <gtest/gtest.h>

namespace sonde::snapshot {
namespace {

std::string json_of(const std::string& head) { return head.substr(8); }

TEST(Safetensors, HeadIsItsLengthAndPaddedJson) {
  const std::vector<SafeTensor> tensors = {{"w", "F32", {2, 3}}, {"b", "BF16", {3}}};
  const std::string head = safetensors_head(tensors);
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | static_cast<unsigned char>(head[static_cast<std::size_t>(i)]);
  EXPECT_EQ(length, head.size() - 8);
  EXPECT_EQ(head.size() % 8, 0u);
  std::string json = json_of(head);
  json.erase(json.find_last_not_of(' ') + 1);
  EXPECT_EQ(json,
            R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,3],)"
            R"("data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[3],"data_offsets":[24,30]}})");
}

TEST(Safetensors, NothingIsAFileToo) {
  EXPECT_EQ(json_of(safetensors_head({})).substr(0, 31), R"({"__metadata__":{"format":"pt"})");
}

TEST(Safetensors, EveryNameIsKept) {
  const std::vector<SafeTensor> tensors = {{"w", "U8", {1}},   {"w", "U8", {1}},
                                           {"w#2", "U8", {1}}, {"w", "U8", {1}},
                                           {"", "U8", {1}},    {"__metadata__", "U8", {1}}};
  const std::string json = json_of(safetensors_head(tensors));
  for (const char* name :
       {R"("w":{)", R"("w#2":{)", R"("w#2#2":{)", R"("w#3":{)", R"("":{)", R"("__metadata__#2":{)"})
    EXPECT_NE(json.find(name), std::string::npos) << name << " in " << json;
}

TEST(Safetensors, HalfASurrogatePairIsReplaced) {
  const std::vector<SafeTensor> tensors = {{"a\xED\xA0\x80z \xED\x9F\xBF", "U8", {1}}};
  EXPECT_NE(json_of(safetensors_head(tensors)).find("\"a\xEF\xBF\xBDz \xED\x9F\xBF\""),
            std::string::npos);
}

TEST(Safetensors, WidestElementsFirst) {
  const std::vector<SafeTensor> tensors = {{"bool", "BOOL", {1}}, {"f32", "F32", {1}},
                                           {"f16", "F16", {1}},   {"c64", "C64", {1}},
                                           {"i32", "I32", {1}},   {"u8", "U8", {1}}};
  EXPECT_EQ(file_order(tensors), (std::vector<std::size_t>{3, 1, 4, 2, 0, 5}));
}

TEST(Safetensors, BytesOfATensor) {
  EXPECT_EQ((SafeTensor{"", "F64", {}}).bytes(), 8u) << "a scalar";
  EXPECT_EQ((SafeTensor{"", "C64", {3, 2}}).bytes(), 48u);
  EXPECT_EQ((SafeTensor{"", "F8_E5M2FNUZ", {3, 2}}).bytes(), 6u);
  EXPECT_EQ((SafeTensor{"", "F32", {3, 0}}).bytes(), 0u);
}

}  // namespace
}  // namespace sonde::snapshot
