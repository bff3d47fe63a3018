#include "engine/snapshot/capture.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "engine/base/json_writer.h"
#include "engine/codec/encode_snapshot.h"

namespace sonde::snapshot {
namespace {

Capture capture_of(Catalogue catalogue) {
  Capture capture;
  capture.span_id = {3, 4};
  capture.ts_ns = 1'700'000'000'000'000'000;
  capture.statistics.resize(catalogue.size());
  capture.catalogue = std::make_shared<const Catalogue>(std::move(catalogue));
  return capture;
}

std::string encoded(const Capture& capture, std::size_t record = 0) {
  base::JsonWriter out;
  codec::encode_snapshot(out, record_of(capture, record, {1, 2}));
  return out.str();
}

TEST(Capture, RecordHasItsKeysInTheOrderOfTheFormat) {
  Capture capture = capture_of({{"layer.weight", "float32", {2, 8}, R"("rank":1)"}});
  capture.attrs = R"("at":"step")";
  Statistics all;
  all.mean = 0.5;
  all.std = 0.25;
  all.min = 0;
  all.max = 16;
  all.norm = 2;
  all.count = 14;
  all.zero_count = 3;
  all.counts[0] = 13;
  all.counts[15] = 1;
  capture.statistics[0] = all;
  EXPECT_EQ(
      encoded(capture),
      R"({"id":"00000000000000010000000000000002","span_id":"00000000000000030000000000000004",)"
      R"("tensor_name":"layer.weight","shape":[2,8],"dtype":"float32","mode":"stats",)"
      R"("stats":{"mean":0.5,"std":0.25,"min":0.0,"max":16.0,"norm":2.0,"histogram":{)"
      R"("bins":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0,11.0,12.0,13.0,14.0,15.0,16.0],)"
      R"("counts":[13,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]},"count":14,"nan_count":0,"inf_count":0,)"
      R"("zero_count":3},"blob_uri":null,"ts_ns":1700000000000000000,"attrs":{"at":"step","rank":1}})");
}

TEST(Capture, ScalarWithoutStatistics) {
  const Capture capture = capture_of({{"scale", "unknown", {}, ""}});
  EXPECT_EQ(
      encoded(capture),
      R"({"id":"00000000000000010000000000000002","span_id":"00000000000000030000000000000004",)"
      R"("tensor_name":"scale","shape":[],"dtype":"unknown","mode":"stats","stats":null,)"
      R"("blob_uri":null,"ts_ns":1700000000000000000,"attrs":{}})");
}

// The "stats" of one record.
std::string stats_of(const Statistics& found) {
  Capture capture = capture_of({{"w", "float32", {3}, ""}});
  capture.statistics[0] = found;
  const std::string text = encoded(capture);
  const std::size_t begin = text.find(R"("stats":)") + 8, end = text.find(R"(,"blob_uri")");
  return text.substr(begin, end - begin);
}

constexpr std::string_view kFinite =
    R"("mean":0.5,"std":0.25,"min":0.0,"max":16.0,"norm":2.0,"histogram":{)"
    R"("bins":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0,11.0,12.0,13.0,14.0,15.0,16.0],)"
    R"("counts":[13,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]})";

Statistics with_others(std::uint64_t nans, std::uint64_t plus, std::uint64_t minus) {
  Statistics found;
  found.mean = 0.5;
  found.std = 0.25;
  found.max = 16;
  found.norm = 2;
  found.count = 14;
  found.zero_count = 3;
  found.counts[0] = 13;
  found.counts[15] = 1;
  found.nan_count = nans;
  found.inf_count = plus + minus;
  found.minus_inf_count = minus;
  return found;
}

TEST(Capture, ANanMakesEveryNumberNanAndLeavesTheFiniteOnes) {
  EXPECT_EQ(stats_of(with_others(1, 1, 1)),
            R"({"mean":null,"std":null,"min":null,"max":null,"norm":null,"nonfinite_count":3,)"
            R"("finite":{"count":14,)" +
                std::string(kFinite) +
                R"(},"nonfinite":{"mean":"nan","std":"nan","min":"nan","max":"nan","norm":"nan"},)"
                R"("count":14,"nan_count":1,"inf_count":2,"zero_count":3})");
}

TEST(Capture, OfInfinitiesOneSignIsLeftOutOfTheOtherExtreme) {
  const auto begins = [](const Statistics& found, std::string_view wanted) {
    const std::string text = stats_of(found);
    EXPECT_TRUE(text.starts_with(wanted)) << text;
    return text.substr(text.find(R"("nonfinite":)"));
  };
  EXPECT_EQ(
      begins(with_others(0, 2, 0), R"({"mean":null,"std":null,"min":0.0,"max":null,"norm":null,)"
                                   R"("nonfinite_count":2,"finite":{"count":14,"mean":0.5,)"),
      R"("nonfinite":{"mean":"inf","std":"nan","max":"inf","norm":"inf"},)"
      R"("count":14,"nan_count":0,"inf_count":2,"zero_count":3})");
  EXPECT_EQ(begins(with_others(0, 0, 1), R"({"mean":null,"std":null,"min":null,"max":16.0,)"),
            R"("nonfinite":{"mean":"-inf","std":"nan","min":"-inf","norm":"inf"},)"
            R"("count":14,"nan_count":0,"inf_count":1,"zero_count":3})");
  EXPECT_EQ(begins(with_others(0, 1, 1), R"({"mean":null,"std":null,"min":null,"max":null,)"),
            R"("nonfinite":{"mean":"nan","std":"nan","min":"-inf","max":"inf","norm":"inf"},)"
            R"("count":14,"nan_count":0,"inf_count":2,"zero_count":3})");
}

TEST(Capture, WithoutAFiniteValueThereIsOnlyTheirNumber) {
  Statistics found;
  found.nan_count = 3;
  EXPECT_EQ(stats_of(found),
            R"({"mean":null,"std":null,"min":null,"max":null,"norm":null,"nonfinite_count":3,)"
            R"("finite":{"count":0},)"
            R"("nonfinite":{"mean":"nan","std":"nan","min":"nan","max":"nan","norm":"nan"},)"
            R"("count":0,"nan_count":3,"inf_count":0,"zero_count":0})");
  found.nan_count = 0;
  found.inf_count = found.minus_inf_count = 2;
  EXPECT_EQ(stats_of(found),
            R"({"mean":null,"std":null,"min":null,"max":null,"norm":null,"nonfinite_count":2,)"
            R"("finite":{"count":0},)"
            R"("nonfinite":{"mean":"-inf","std":"nan","min":"-inf","max":"-inf","norm":"inf"},)"
            R"("count":0,"nan_count":0,"inf_count":2,"zero_count":0})");
}

TEST(Capture, OfAnEmptyTensorAllIsZero) {
  EXPECT_EQ(stats_of(Statistics()),
            R"({"mean":0.0,"std":0.0,"min":0.0,"max":0.0,"norm":0.0,"histogram":{"bins":[0.0,0.0,)"
            R"(0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0],)"
            R"("counts":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]},)"
            R"("count":0,"nan_count":0,"inf_count":0,"zero_count":0})");
}

TEST(Capture, ANumberOfFiniteValuesThatOverflowsIsNamedToo) {
  Statistics found = with_others(0, 0, 0);
  found.norm = std::numeric_limits<double>::infinity();
  std::string text = stats_of(found);
  EXPECT_TRUE(text.starts_with(R"({"mean":0.5,"std":0.25,"min":0.0,"max":16.0,"norm":null,"his)"))
      << text;
  EXPECT_NE(text.find(R"(]},"nonfinite":{"norm":"inf"},"count":14,)"), std::string::npos) << text;
  found.nan_count = 1;
  text = stats_of(found);
  EXPECT_NE(text.find(R"(]},"nonfinite":{"norm":"inf"}},"nonfinite":{"mean":"nan",)"),
            std::string::npos)
      << text;
}

TEST(Capture, OnlyWhatIsInTheBlobSaysSo) {
  Capture capture = capture_of({{"a", "float32", {1}, ""}, {"b", "float32", {1}, ""}});
  capture.mode = "full";
  EXPECT_NE(encoded(capture, 0).find(R"("mode":"stats")"), std::string::npos) << "no blob yet";
  capture.blob_uri = "file:///x/weights.safetensors";
  EXPECT_NE(encoded(capture, 0).find(R"("mode":"stats")"), std::string::npos) << "none is in it";
  capture.in_blob = {true, false};
  EXPECT_NE(encoded(capture, 0).find(R"("blob_uri":"file:///x/weights.safetensors")"),
            std::string::npos);
  EXPECT_NE(encoded(capture, 1).find(R"("mode":"stats")"), std::string::npos);
  EXPECT_NE(encoded(capture, 1).find(R"("blob_uri":null)"), std::string::npos);
}

TEST(Capture, FirstNonFiniteIsTheFirstInOrder) {
  Capture capture = capture_of({{"a", "", {}, ""}, {"b", "", {}, ""}, {"c", "", {}, ""}});
  EXPECT_EQ(first_non_finite(capture), 3u);
  capture.statistics[2].emplace().nan_count = 1;
  EXPECT_EQ(first_non_finite(capture), 2u);
  capture.statistics[1].emplace().inf_count = 1;
  capture.statistics[0].emplace();
  EXPECT_EQ(first_non_finite(capture), 1u);
}

}  // namespace
}  // namespace sonde::snapshot
