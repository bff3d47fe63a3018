#include "engine/report/tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace sonde::report {
namespace {

using analysis::TensorLine;
using model::Epoch;

const Epoch kFirst = {.index = 0, .rank = 0, .run = 1};
const Epoch kSecond = {.index = 1, .rank = 0, .run = 1, .order = 1};

TensorLine line(const Epoch& epoch, std::string_view name, double mean) {
  TensorLine out;
  out.epoch = &epoch;
  out.tensor = {.name = name, .shape = "2, 3", .dtype = "float32", .unavailable = {}};
  out.tensor.known = true;
  out.tensor.mean = mean;
  out.tensor.std = 0.5;
  out.tensor.min = -1.5;
  out.tensor.max = 2;
  out.tensor.norm = 1234567.89;
  out.tensor.count = 6;
  out.tensor.nan_count = out.tensor.inf_count = out.tensor.zero_count = 0;
  return out;
}

TensorLine without_stats(const Epoch& epoch, std::string_view why) {
  TensorLine out;
  out.epoch = &epoch;
  out.tensor = {.name = "ghost", .shape = "", .dtype = "bfloat16", .unavailable = why};
  return out;
}

// Two epochs of so many tensors.
analysis::TensorTable table_of(Epoch& first, Epoch& second, int tensors) {
  analysis::TensorTable table;
  for (Epoch* epoch : {&first, &second}) {
    for (int i = 0; i < tensors; ++i) table.add(*epoch, line(*epoch, std::to_string(i), 1).tensor);
  }
  table.sort();
  return table;
}

TEST(TableText, IsOfTheNewestEpochWhereItWouldBeTooLong) {
  const auto text = [](int tensors, bool in_full) {
    Epoch first = kFirst, second = kSecond;
    return table_text(table_of(first, second, tensors), in_full);
  };
  EXPECT_NE(text(21, false).find("21 of 42 lines; --epoch N"), std::string::npos);
  EXPECT_EQ(text(21, true).find("--epoch N"), std::string::npos);
  EXPECT_EQ(std::ranges::count(text(21, true), '\n'), 43) << "with the titles";
  EXPECT_EQ(text(20, false), text(20, true)) << "40 lines can be read";
}

TEST(TensorsText, OfNothing) { EXPECT_EQ(tensors_text({}), "(no snapshots)\n"); }

TEST(TensorsText, FourDigitsAndOnlyColumnsThatHaveAnything) {
  const std::vector<TensorLine> lines = {line(kFirst, "weight", 1.0 / 3),
                                         line(kSecond, "weight.grad", 1e-7)};
  EXPECT_EQ(tensors_text(lines),
            "epoch  tensor       shape  dtype      mean  std   min  max       norm\n"
            "    0  weight       [2,3]  float32  0.3333  0.5  -1.5    2  1.235e+06\n"
            "    1  weight.grad  [2,3]  float32   1e-07  0.5  -1.5    2  1.235e+06\n");
}

TEST(TensorsText, CountsWhereThereAreSome) {
  std::vector<TensorLine> lines = {line(kFirst, "a", 1), line(kFirst, "b", 1)};
  lines[0].tensor.nan_count = 7;
  lines[1].tensor.nan_count = model::kNone;
  EXPECT_EQ(tensors_text(lines),
            "epoch  tensor  shape  dtype    mean  std   min  max       norm  nan\n"
            "    0  a       [2,3]  float32     1  0.5  -1.5    2  1.235e+06    7\n"
            "    0  b       [2,3]  float32     1  0.5  -1.5    2  1.235e+06    -\n");
}

TEST(TensorsText, ReasonWhereThereAreNoStatistics) {
  const std::vector<TensorLine> lines = {without_stats(kFirst, "meta\n"),
                                         without_stats(kFirst, "")};
  EXPECT_EQ(tensors_text(lines),
            "epoch  tensor  shape  dtype     mean  std  min  max  norm\n"
            "    0  ghost   []     bfloat16     -    -    -    -     -  meta\\x0a\n"
            "    0  ghost   []     bfloat16     -    -    -    -     -  no statistics for this "
            "type\n");
}

TEST(TensorsText, RunAndRankWhereThereAreSeveral) {
  const Epoch other = {.index = 0, .rank = 1, .run = 2};
  const Epoch unknown;
  const std::vector<TensorLine> lines = {without_stats(unknown, "x"), without_stats(other, "x")};
  EXPECT_EQ(tensors_text(lines),
            "run  epoch  rank  tensor  shape  dtype     mean  std  min  max  norm\n"
            "  -      -     -  ghost   []     bfloat16     -    -    -    -     -  x\n"
            "  2      0     1  ghost   []     bfloat16     -    -    -    -     -  x\n");
}

TEST(TensorsText, SaysWhatIsLeftOut) {
  const std::vector<TensorLine> lines = {line(kFirst, "a", 1)};
  EXPECT_NE(tensors_text(lines, 9).find("1 of 10 lines; --epoch N"), std::string::npos);
}

TEST(TensorsCsv, AllDigitsAndQuotes) {
  std::vector<TensorLine> lines = {line(kFirst, "a,\"b\"", 1.0 / 3), without_stats(kFirst, "x")};
  lines[0].tensor.norm = std::numeric_limits<double>::infinity();
  const Epoch unknown;
  lines[1].epoch = &unknown;
  std::string out;
  for (const TensorLine& each : lines) append_tensor_csv(out, each);
  EXPECT_EQ(out,
            "1,0,0,\"a,\"\"b\"\"\",\"[2,3]\",float32,0.3333333333333333,0.5,-1.5,2,inf,6,0,0,0,,\n"
            ",,,ghost,[],bfloat16,,,,,,,,,,x,\n");
}

TEST(TensorsText, ProcessesOfOneRankHaveAColumn) {
  Epoch one = kFirst, other = kFirst;
  one.pid = 4711;
  other.pid = 4712;
  EXPECT_NE(tensors_text(std::vector{line(one, "a", 1), line(other, "a", 1)}).find(" 4712 "),
            std::string::npos);
  other.run = 2;
  EXPECT_EQ(tensors_text(std::vector{line(one, "a", 1), line(other, "a", 1)}).find("4712"),
            std::string::npos);
}

TEST(TensorsJson, AddsToTheRecord) {
  std::string out;
  append_tensor_json(out, kSecond, R"({"id":"x"})");
  append_tensor_json(out, Epoch{}, "{ }");
  EXPECT_EQ(out, R"({"epoch":1,"run":1,"rank":0,"id":"x"})"
                 R"({"epoch":null,"run":null,"rank":null })");
}

TEST(TensorsJson, AnArrayComesInPieces) {
  TensorJsonArray none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.finish(), "[\n]\n");
  TensorJsonArray array;
  std::string out;
  std::size_t pieces = 0;
  const std::string record = R"({"id":")" + std::string(1000, 'x') + "\"}";
  for (int i = 0; i < 1500; ++i) {
    array.add(kSecond, record);
    const std::string piece = array.take_full_piece();
    pieces += piece.empty() ? 0 : 1;
    out += piece;
  }
  EXPECT_FALSE(array.empty());
  EXPECT_EQ(pieces, 1u);
  out += array.finish();
  std::string line, all = "[";
  append_tensor_json(line, kSecond, record);
  for (int i = 0; i < 1500; ++i) all += (i == 0 ? "\n" : ",\n") + line;
  EXPECT_EQ(out, all + "\n]\n");
}

}  // namespace
}  // namespace sonde::report
