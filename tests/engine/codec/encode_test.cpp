#include "engine/codec/encode.h"

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "engine/spool/reader.h"

namespace sonde::codec {
namespace {

std::string encoded(const model::Batch& batch) {
  base::JsonWriter out;
  encode_batch(out, batch);
  return out.str();
}

std::string encoded(const model::Mark& mark) {
  base::JsonWriter out;
  encode_mark(out, mark);
  return out.str();
}

TEST(Encode, SpanHasItsFourteenKeysInTheOrderOfTheFormat) {
  model::Batch batch;
  model::Span span;
  span.id = {1, 2};
  span.parent_id = {3, 4};
  span.name = "step";
  span.attrs = R"("a":1,"b":"x")";
  span.index = 5;
  span.start_ns = 1'700'000'000'000'000'000;
  span.end_ns = 1'700'000'000'000'000'142;
  span.cpu_ns = 6;
  span.gpu_ns = 7;
  span.memory_peak_bytes = 8;
  span.thread_id = 18'446'744'073'709'551'615u;
  span.pid = 9;
  span.rank = 10;
  span.first_mark_id = 1;
  span.mark_id_count = 2;
  batch.mark_ids = {{0, 1}, {0, 2}, {0, 3}};
  base::JsonWriter out;
  encode_span(out, span, batch);
  EXPECT_EQ(
      out.view(),
      R"({"id":"00000000000000010000000000000002","name":"step","parent_id":"00000000000000030000000000000004","index":5,)"
      R"("start_ns":1700000000000000000,"end_ns":1700000000000000142,"cpu_ns":6,"gpu_ns":7,"memory_peak_bytes":8,)"
      R"("thread_id":18446744073709551615,"pid":9,"rank":10,"attrs":{"a":1,"b":"x"},)"
      R"("mark_ids":["00000000000000000000000000000002","00000000000000000000000000000003"]})");
}

TEST(Encode, WhatASpanDoesNotHaveIsNull) {
  base::JsonWriter out;
  const model::Batch batch;
  encode_span(out, model::Span(), batch);
  EXPECT_EQ(
      out.view(),
      R"({"id":"00000000000000000000000000000000","name":"","parent_id":null,"index":null,"start_ns":0,"end_ns":null,"cpu_ns":null,)"
      R"("gpu_ns":null,"memory_peak_bytes":null,"thread_id":0,"pid":0,"rank":0,"attrs":{},"mark_ids":[]})");
}

TEST(Encode, WidestNumbersFit) {
  model::Span span;
  span.index = span.start_ns = span.end_ns = span.cpu_ns = span.gpu_ns = span.memory_peak_bytes =
      -std::numeric_limits<std::int64_t>::max();
  span.pid = span.rank = std::numeric_limits<std::int32_t>::min();
  span.thread_id = std::numeric_limits<std::uint64_t>::max();
  base::JsonWriter out;
  const model::Batch batch;
  for (int i = 0; i < 100; ++i) encode_span(out, span, batch);
  EXPECT_EQ(out.size() % 100, 0u);
}

TEST(Encode, NamesAreEscapedAndNeverAltered) {
  model::Batch batch;
  model::Span& span = batch.spans.emplace_back();
  const std::string name = "a\"b\\c\n\t\x01 \xC3\xA9 \xF0\x9F\x98\x80 \x7F";
  span.id = {0, 1};
  span.name = name;
  span.end_ns = 1;
  Reader reader;
  model::Batch back;
  const base::Status status = reader.read_text(encoded(batch), "it", back);
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(back.spans.at(0).name, name);
}

TEST(Encode, EachTypeOfMark) {
  model::Mark mark;
  mark.id = {0, 1};
  mark.span_id = {0, 2};
  mark.name = "m";
  mark.ts_ns = 3;
  mark.real = 0.5;
  const std::string head =
      R"({"id":"00000000000000000000000000000001","span_id":"00000000000000000000000000000002","name":"m","value_type":)";
  EXPECT_EQ(encoded(mark), head + R"("float","value":0.5,"attrs":{},"ts_ns":3,"kind":"point"})");
  mark.summary = true;
  mark.real = 3;
  EXPECT_EQ(encoded(mark), head + R"("float","value":3.0,"attrs":{},"ts_ns":3,"kind":"summary"})")
      << "a float looks like one";
  mark.summary = false;
  mark.type = model::ValueType::kInt;
  mark.integer = -7;
  EXPECT_EQ(encoded(mark), head + R"("int","value":-7,"attrs":{},"ts_ns":3,"kind":"point"})");
  mark.text = "123456789012345678901234567890";
  EXPECT_EQ(
      encoded(mark),
      head +
          R"("int","value":123456789012345678901234567890,"attrs":{},"ts_ns":3,"kind":"point"})");
  mark.type = model::ValueType::kBool;
  mark.integer = 1;
  mark.attrs = R"("k":"v")";
  EXPECT_EQ(encoded(mark),
            head + R"("bool","value":true,"attrs":{"k":"v"},"ts_ns":3,"kind":"point"})");
  mark.type = model::ValueType::kString;
  mark.text = "x\"y";
  mark.attrs = {};
  EXPECT_EQ(encoded(mark),
            head + R"("string","value":"x\"y","attrs":{},"ts_ns":3,"kind":"point"})");
}

TEST(Encode, LossThatDivergedIsStillJson) {
  model::Mark mark;
  mark.real = std::nan("");
  const std::string value = R"("value_type":"float","value":null,"attrs":{},)";
  EXPECT_NE(encoded(mark).find(value), std::string::npos) << encoded(mark);
  const auto ends = [&](std::string_view with) {
    EXPECT_TRUE(encoded(mark).ends_with(with)) << encoded(mark);
  };
  ends(R"("kind":"point","value_nonfinite":"nan"})");
  mark.real = std::numeric_limits<double>::infinity();
  ends(R"("kind":"point","value_nonfinite":"inf"})");
  mark.real = -mark.real;
  mark.summary = true;
  ends(R"("kind":"summary","value_nonfinite":"-inf"})");
}

TEST(Encode, MarkOfNoSpanSaysRoot) {
  EXPECT_NE(encoded(model::Mark()).find(R"("span_id":"root")"), std::string::npos);
}

TEST(Encode, EmptyBatchHasAllItsKeys) {
  model::Batch batch;
  batch.batch_id = {0, 1};
  batch.created_ns = 5;
  EXPECT_EQ(
      encoded(batch),
      R"({"schema_version":1,"sdk_version":")" + std::string(kSdkVersion) +
          R"(","batch_id":"00000000000000000000000000000001","created_ns":5,"spans":[],"marks":[],"snapshots":[]})");
}

TEST(Encode, BatchReadsBackAsItWas) {
  model::Batch batch;
  batch.batch_id = {7, 8};
  batch.created_ns = 99;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    model::Span& span = batch.spans.emplace_back();
    span.id = {1, i};
    span.name = "s";
    span.start_ns = static_cast<std::int64_t>(i);
    span.end_ns = static_cast<std::int64_t>(i + 1);
    model::Mark& mark = batch.marks.emplace_back();
    mark.id = {2, i};
    mark.span_id = {1, i};
    mark.name = "m";
    mark.real = 1.0 / static_cast<double>(i);
  }
  model::Snapshot& snapshot = batch.snapshots.emplace_back();
  snapshot.id = {0, 1};
  snapshot.span_id = {0, 2};
  snapshot.json =
      R"({"id":"00000000000000000000000000000001","span_id":"00000000000000000000000000000002"})";
  Reader reader;
  model::Batch back;
  const base::Status status = reader.read_text(encoded(batch), "it", back);
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(back.batch_id, batch.batch_id);
  EXPECT_EQ(back.created_ns, 99);
  ASSERT_EQ(back.spans.size(), 3u);
  ASSERT_EQ(back.marks.size(), 3u);
  EXPECT_EQ(back.snapshots.size(), 1u);
  EXPECT_EQ(back.spans[2].id, batch.spans[2].id);
  EXPECT_EQ(back.marks[2].real, batch.marks[2].real);
}

}  // namespace
}  // namespace sonde::codec
