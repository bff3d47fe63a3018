#include "engine/snapshot/capture.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

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
  encode(out, capture, record, {1, 2});
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
  all.nan_count = 1;
  all.inf_count = 2;
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
      R"("counts":[13,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]},"count":14,"nan_count":1,"inf_count":2,)"
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

TEST(Capture, WithoutAFiniteValueAllIsZero) {
  Capture capture = capture_of({{"w", "float32", {3}, ""}});
  capture.statistics[0].emplace().nan_count = 3;
  const std::string text = encoded(capture);
  EXPECT_NE(text.find(R"("bins":[0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,)"
                      R"(0.0])"),
            std::string::npos)
      << text;
}

TEST(Capture, WhatIsNotFiniteIsAString) {
  Capture capture = capture_of({{"w", "float64", {3}, ""}});
  Statistics& all = capture.statistics[0].emplace();
  all.norm = std::numeric_limits<double>::infinity();
  all.mean = -all.norm;
  all.std = std::numeric_limits<double>::quiet_NaN();
  const std::string text = encoded(capture);
  EXPECT_NE(text.find(R"("mean":"-Infinity","std":"NaN","min":0.0,"max":0.0,"norm":"Infinity")"),
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
