#include "engine/codec/reader.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <map>

#include "engine/base/attr_names.h"
#include "engine/base/json_writer.h"
#include "engine/codec/encode.h"

namespace sonde::codec {
namespace {

std::string batch_with(std::string_view spans, std::string_view marks = "",
                       std::string_view snapshots = "") {
  return R"({"schema_version":1,"sdk_version":"0.1.0","batch_id":"e4ca68247eb2421d8508eb912844eadb","created_ns":42,"spans":[)" +
         std::string(spans) + R"(],"marks":[)" + std::string(marks) + R"(],"snapshots":[)" +
         std::string(snapshots) + "]}";
}

std::string mark_with(std::string_view type, std::string_view value) {
  return R"({"id":"m","span_id":"s","name":"x","value_type":")" + std::string(type) +
         R"(","value":)" + std::string(value) + R"(,"attrs":{},"ts_ns":5,"kind":"point"})";
}

class ReaderTest : public ::testing::Test {
 protected:
  base::Status read(std::string_view text, Detail detail = Detail::kAll) {
    return reader_.read_text(text, "it", batch_, detail);
  }
  Reader reader_;
  model::Batch batch_;
};

TEST_F(ReaderTest, ReadsEveryFieldOfASpan) {
  ASSERT_TRUE(
      read(
          batch_with(
              R"({"id":"f9ceaecd24aee6d833a7bc45d46c835b","name":"b\u00e9","parent_id":"e4c5dac94a466b438cb97161190ec132",
      "index":-3,"start_ns":10,"end_ns":30,"cpu_ns":1,"gpu_ns":2,"memory_peak_bytes":3,"thread_id":18446744073709551615,
      "pid":5,"rank":6,"attrs": {"k":[1, "x"]} ,"mark_ids":["00000000000000000000000000000001"]})"))
          .ok());
  EXPECT_EQ(batch_.created_ns, 42);
  EXPECT_EQ(batch_.sdk_version, "0.1.0");
  EXPECT_EQ(batch_.batch_id.hi, 0xe4ca68247eb2421du);
  ASSERT_EQ(batch_.spans.size(), 1u);
  const model::Span& span = batch_.spans[0];
  EXPECT_EQ(span.id, (base::Id{0xf9ceaecd24aee6d8u, 0x33a7bc45d46c835bu}));
  EXPECT_EQ(span.parent_id.hi, 0xe4c5dac94a466b43u);
  EXPECT_EQ(span.name, "b\xC3\xA9");
  EXPECT_EQ(span.index, -3);
  EXPECT_EQ(span.start_ns, 10);
  EXPECT_EQ(span.end_ns, 30);
  EXPECT_EQ(span.cpu_ns, 1);
  EXPECT_EQ(span.gpu_ns, 2);
  EXPECT_EQ(span.memory_peak_bytes, 3);
  EXPECT_EQ(span.thread_id, ~std::uint64_t{0});
  EXPECT_EQ(span.pid, 5);
  EXPECT_EQ(span.rank, 6);
  EXPECT_EQ(span.attrs, R"("k":[1, "x"])");
  ASSERT_EQ(span.mark_id_count, 1u);
  EXPECT_EQ(batch_.mark_ids[span.first_mark_id], (base::Id{0, 1}));
}

TEST_F(ReaderTest, NullsAreNone) {
  ASSERT_TRUE(
      read(
          batch_with(
              R"({"id":"a","name":"","parent_id":null,"index":null,"start_ns":1,"end_ns":null,"cpu_ns":null,
      "gpu_ns":null,"memory_peak_bytes":null,"thread_id":1,"pid":1,"rank":0,"attrs":{},"mark_ids":[]})"))
          .ok());
  const model::Span& span = batch_.spans.at(0);
  EXPECT_FALSE(span.parent_id);
  EXPECT_TRUE(span.open());
  EXPECT_EQ(span.index, model::kNone);
  EXPECT_EQ(span.gpu_ns, model::kNone);
  EXPECT_TRUE(span.attrs.empty());
  EXPECT_TRUE(span.name.empty());
}

TEST_F(ReaderTest, AnyOrderOfKeysAndUnknownKeys) {
  ASSERT_TRUE(
      read(
          R"({"new":{"deep":[1,{"id":"no"}]},"spans":[{"rank":2,"later":"x","end_ns":9,"start_ns":4,"extra":[[]],
      "name":"n","id":"a"}],"marks":[{"value":1.5,"kind":"summary","name":"m","id":"b","value_type":"float"}],"schema_version":1})")
          .ok());
  EXPECT_EQ(batch_.spans.at(0).rank, 2);
  EXPECT_EQ(batch_.spans.at(0).duration_ns(), 5);
  EXPECT_TRUE(batch_.marks.at(0).summary);
  EXPECT_EQ(batch_.marks.at(0).real, 1.5);
}

TEST_F(ReaderTest, MarkValues) {
  ASSERT_TRUE(read(batch_with("", mark_with("float", "0.25") + "," + mark_with("int", "-7") + "," +
                                      mark_with("string", "\"t\\n\"") + "," +
                                      mark_with("bool", "true") + "," + mark_with("float", "3")))
                  .ok());
  EXPECT_EQ(batch_.marks[0].real, 0.25);
  EXPECT_EQ(batch_.marks[1].type, model::ValueType::kInt);
  EXPECT_EQ(batch_.marks[1].integer, -7);
  EXPECT_EQ(batch_.marks[2].text, "t\n");
  EXPECT_EQ(batch_.marks[3].type, model::ValueType::kBool);
  EXPECT_EQ(batch_.marks[3].integer, 1);
  EXPECT_EQ(batch_.marks[4].type, model::ValueType::kFloat);
  EXPECT_EQ(batch_.marks[4].real, 3);
  EXPECT_EQ(batch_.marks[0].ts_ns, 5);
}

TEST_F(ReaderTest, AnIntegerBeyond64BitsKeepsItsDigits) {
  ASSERT_TRUE(read(batch_with("", mark_with("int", "123456789012345678901234567890"))).ok());
  EXPECT_EQ(batch_.marks[0].type, model::ValueType::kInt);
  EXPECT_EQ(batch_.marks[0].text, "123456789012345678901234567890");
}

TEST_F(ReaderTest, NonFiniteFloatsAsStringsAndBare) {
  for (const auto& [nan, inf] :
       {std::pair("\"NaN\"", "\"-Infinity\""), std::pair("NaN", "-Infinity")}) {
    ASSERT_TRUE(read(batch_with("", mark_with("float", nan) + "," + mark_with("float", inf))).ok());
    EXPECT_TRUE(std::isnan(batch_.marks[0].real));
    EXPECT_EQ(batch_.marks[1].real, -std::numeric_limits<double>::infinity());
  }
  ASSERT_TRUE(read(batch_with("", mark_with("string", "\"NaN\""))).ok());
  EXPECT_EQ(batch_.marks[0].type, model::ValueType::kString) << "a text that says NaN stays a text";
}

TEST_F(ReaderTest, NonFiniteFloatsAsNullWithAName) {
  const auto named = [](std::string_view name) {
    return R"({"value_nonfinite":)" + std::string(name) +
           R"(,"id":"m","name":"x","value":null,"value_type":"float"})";
  };
  ASSERT_TRUE(read(batch_with("", named(R"("nan")") + "," + named(R"("inf")") + "," +
                                      named(R"("-inf")") + "," + named(R"("newer")")))
                  .ok());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(batch_.marks[0].real));
  EXPECT_EQ(batch_.marks[1].real, kInfinity);
  EXPECT_EQ(batch_.marks[2].real, -kInfinity);
  EXPECT_TRUE(std::isnan(batch_.marks[3].real)) << "a name that we do not know";
  for (const model::Mark& mark : batch_.marks) EXPECT_EQ(mark.type, model::ValueType::kFloat);
  for (const char* unknown : {"null", "5", "{}", "[\"nan\"]"}) {
    ASSERT_TRUE(read(batch_with("", named(unknown))).ok()) << unknown;
    EXPECT_TRUE(std::isnan(batch_.marks.at(0).real)) << unknown;
  }
  ASSERT_TRUE(read(batch_with("", mark_with("float", "null"))).ok());
  EXPECT_TRUE(std::isnan(batch_.marks.at(0).real));
  EXPECT_FALSE(read(batch_with("", R"({"id":"m","name":"x","value_type":"float"})")).ok());
  ASSERT_TRUE(read(batch_with("", R"({"id":"m","name":"x","value":1,"value_type":"int",)"
                                  R"("value_nonfinite":"nan"})"))
                  .ok());
  EXPECT_EQ(batch_.marks[0].integer, 1) << "a value that is there counts";
}

model::TensorStats stats_of(Reader& reader, model::Batch& batch, std::string_view stats) {
  const std::string text =
      batch_with("", "", R"({"tensor_name":"w","stats":)" + std::string(stats) + "}");
  EXPECT_TRUE(reader.read_text(text, "it", batch, Detail::kTensors).ok()) << stats;
  return batch.tensors.at(0);
}

TEST_F(ReaderTest, StatisticsAreThoseOfTheFiniteValues) {
  // In both orders: what is finite may stand in front.
  const std::string nulls = R"("mean":null,"std":null,"min":null,"max":null,"norm":null)";
  const std::string finite =
      R"("finite":{"count":10,"mean":1.5,"std":0.5,"min":-1.0,"max":2.0,"norm":3.0,)"
      R"("histogram":{"bins":[],"counts":[]}})";
  const std::string names =
      R"("nonfinite":{"mean":"nan","std":"nan","min":"nan","max":"nan","norm":"nan"})";
  for (const std::string& stats :
       {"{" + nulls + R"(,"nonfinite_count":2,)" + finite + "," + names + "}",
        "{" + names + "," + finite + R"(,"nonfinite_count":2,)" + nulls + "}"}) {
    const model::TensorStats found = stats_of(reader_, batch_, stats);
    EXPECT_TRUE(found.known);
    EXPECT_EQ(found.mean, 1.5);
    EXPECT_EQ(found.std, 0.5);
    EXPECT_EQ(found.min, -1);
    EXPECT_EQ(found.max, 2);
    EXPECT_EQ(found.norm, 3);
    EXPECT_EQ(found.count, 10);
    EXPECT_EQ(found.nan_count, 2) << "the writer did not tell them apart";
    EXPECT_EQ(found.inf_count, model::kNone);
  }
}

TEST_F(ReaderTest, StatisticsWithInfinitiesOnly) {
  const model::TensorStats found =
      stats_of(reader_, batch_,
               R"({"mean":null,"std":null,"min":-1.0,"max":null,"norm":null,"nonfinite_count":2,)"
               R"("finite":{"count":3,"mean":0.0,"std":1.0,"min":-1.0,"max":1.0,"norm":2.0},)"
               R"("nonfinite":{"mean":"inf","std":"nan","max":"inf","norm":"inf"}})");
  EXPECT_EQ(found.max, 1);
  EXPECT_EQ(found.nan_count, 0);
  EXPECT_EQ(found.inf_count, 2);
  const model::TensorStats ours =
      stats_of(reader_, batch_,
               R"({"mean":null,"min":null,"nonfinite_count":3,"finite":{"count":0},)"
               R"("nonfinite":{"mean":"nan","min":"nan"},"count":0,"nan_count":1,"inf_count":2})");
  EXPECT_EQ(ours.mean, 0);
  EXPECT_EQ(ours.count, 0);
  EXPECT_EQ(ours.nan_count, 1);
  EXPECT_EQ(ours.inf_count, 2);
}

TEST_F(ReaderTest, NonFiniteValuesAreCountedWithoutTheFiniteOnes) {
  for (const char* finite : {"", R"("finite":null,)"}) {
    const model::TensorStats found =
        stats_of(reader_, batch_,
                 std::string(R"({"mean":null,"min":null,"nonfinite_count":2,)") + finite +
                     R"("nonfinite":{"mean":"nan","min":"nan"}})");
    EXPECT_TRUE(std::isnan(found.mean)) << "of all values";
    EXPECT_EQ(found.nan_count, 2);
    EXPECT_EQ(found.count, model::kNone);
  }
  const model::TensorStats uncounted =
      stats_of(reader_, batch_,
               R"({"mean":null,"max":null,"nonfinite_count":3,"finite":{"mean":1.5},)"
               R"("nonfinite":{"mean":"inf","max":"inf"}})");
  EXPECT_EQ(uncounted.mean, 1.5);
  EXPECT_EQ(uncounted.inf_count, 3);
  EXPECT_EQ(uncounted.count, model::kNone);
}

std::string finite_in_finite(int levels) {
  std::string deep = R"({"count":7)";
  for (int i = 0; i < levels; ++i) deep += R"(,"finite":{"count":5)";
  return deep + std::string(static_cast<std::size_t>(levels), '}') + R"(,"mean":2.5})";
}

TEST_F(ReaderTest, FiniteInsideFiniteIsSkipped) {
  const model::TensorStats found =
      stats_of(reader_, batch_, R"({"mean":null,"finite":)" + finite_in_finite(100) + "}");
  EXPECT_EQ(found.count, 7);
  EXPECT_EQ(found.mean, 2.5);
}

// A file must not decide how deep the stack gets.
TEST_F(ReaderTest, DeepStatisticsAreRefused) {
  const std::string text = batch_with("", "", R"({"stats":)" + finite_in_finite(200'000) + "}");
  EXPECT_EQ(reader_.read_text(text, "it", batch_).error(), EINVAL);
}

TEST_F(ReaderTest, ANumberThatOverflowedHasItsName) {
  const model::TensorStats found = stats_of(
      reader_, batch_, R"({"mean":1.0,"norm":null,"nonfinite":{"norm":"inf"},"nan_count":0})");
  EXPECT_EQ(found.mean, 1);
  EXPECT_TRUE(std::isinf(found.norm));
}

TEST_F(ReaderTest, LooksIntoSnapshotsWhenAskedTo) {
  const std::string text = batch_with(
      "", "",
      R"({"id":"a","span_id":"s","tensor_name":"\u00e9.grad","shape":[2, 3],"dtype":"float32","stats":{"mean":0.5,"std":1,)"
      R"("min":-2.5,"max":"Infinity","norm":NaN,"histogram":{"bins":[0.0],"counts":[1]},"count":6,"nan_count":1,)"
      R"("inf_count":2,"zero_count":3},"attrs":{"shard":{"unavailable":"no"},"taken":"epoch_end"}},)"
      R"({"stats":null,"attrs":{"unavailable":"meta"},"shape":[],"dtype":"bfloat16","tensor_name":"b","span_id":"s"},)"
      R"({"tensor_name":5,"shape":["x"],"stats":[],"attrs":7,"dtype":null})");
  ASSERT_TRUE(read(text, Detail::kTensors).ok());
  ASSERT_EQ(batch_.snapshots.size(), 3u);
  ASSERT_EQ(batch_.tensors.size(), 3u);
  const model::TensorStats& first = batch_.tensors[0];
  EXPECT_EQ(first.name, "\xC3\xA9.grad");
  EXPECT_TRUE(first.gradient());
  EXPECT_TRUE(first.known);
  EXPECT_EQ(first.shape, "2, 3");
  EXPECT_EQ(first.dtype, "float32");
  EXPECT_EQ(first.unavailable, "");
  EXPECT_EQ(first.mean, 0.5);
  EXPECT_EQ(first.std, 1);
  EXPECT_EQ(first.min, -2.5);
  EXPECT_TRUE(std::isinf(first.max));
  EXPECT_TRUE(std::isnan(first.norm));
  EXPECT_EQ(first.count, 6);
  EXPECT_EQ(first.nan_count, 1);
  EXPECT_EQ(first.inf_count, 2);
  EXPECT_EQ(first.zero_count, 3);
  const model::TensorStats& second = batch_.tensors[1];
  EXPECT_EQ(second.name, "b");
  EXPECT_FALSE(second.known || second.gradient());
  EXPECT_EQ(second.unavailable, "meta");
  EXPECT_EQ(second.nan_count, model::kNone);
  EXPECT_EQ(batch_.tensors[2].name, "");
  EXPECT_EQ(batch_.tensors[2].shape, "");
  EXPECT_TRUE(batch_.snapshots[1].json.starts_with(R"({"stats":null,)"));
  EXPECT_EQ(batch_.snapshots[0].span_id, batch_.snapshots[1].span_id);

  EXPECT_TRUE(batch_.edges.empty());

  ASSERT_TRUE(read(text, Detail::kSpansAndMarks).ok());
  EXPECT_TRUE(batch_.empty() && batch_.tensors.empty());
}

TEST_F(ReaderTest, AWholeBatchIsReadAtOnce) {
  const std::string text = batch_with(
      R"({"id":"a","name":"epoch","start_ns":1,"end_ns":2})", mark_with("int", "1"),
      R"({"id":"1","span_id":"a","tensor_name":"w","stats":{"mean":0.5,"histogram":{"bins":[0.0,1.0],"counts":[6]}},)"
      R"("mode":"full","blob_uri":"file:///x","ts_ns":9},)"
      R"({"id":"2","span_id":"a","tensor_name":"b","stats":{"nonfinite_count":1,"finite":{"count":5,"mean":2.5,)"
      R"("histogram":{"counts":[2,3],"bins":[0.0,1.0,null]}}},"mode":"stats","blob_uri":null})");
  ASSERT_TRUE(read(text).ok());
  EXPECT_EQ(batch_.spans.size(), 1u);
  EXPECT_EQ(batch_.marks.size(), 1u);
  ASSERT_EQ(batch_.tensors.size(), 2u);
  EXPECT_EQ(batch_.tensors[0].mean, 0.5);
  EXPECT_EQ(batch_.tensors[1].mean, 2.5);
  const model::Snapshot& first = batch_.snapshots.at(0);
  EXPECT_EQ(first.mode, "full");
  EXPECT_EQ(first.blob_uri, "file:///x");
  EXPECT_EQ(first.ts_ns, 9);
  EXPECT_EQ(first.edge_count, 2u);
  EXPECT_EQ(first.bin_count, 1u);
  const model::Snapshot& second = batch_.snapshots.at(1);
  EXPECT_EQ(second.blob_uri, "");
  EXPECT_EQ(second.ts_ns, model::kNone);
  EXPECT_EQ(second.first_edge, 2u);
  EXPECT_EQ(second.edge_count, 3u);
  EXPECT_EQ(batch_.bins, (std::vector<std::int64_t>{6, 2, 3}));
  EXPECT_EQ(batch_.edges[3], 1);
  EXPECT_TRUE(std::isnan(batch_.edges[4]));
}

TEST_F(ReaderTest, ABatchThatIsReadIntoAgainKeepsNothing) {
  ASSERT_TRUE(read(batch_with("")).ok());
  ASSERT_TRUE(read(R"({"schema_version":1})").ok());
  EXPECT_EQ(batch_.created_ns, 0);
  EXPECT_TRUE(batch_.sdk_version.empty());
}

TEST_F(ReaderTest, BareNonFiniteNumbersInsideAttributesAndSnapshots) {
  ASSERT_TRUE(read(batch_with(R"({"id":"a","name":"n","start_ns":1,"end_ns":2,"attrs":{"lr":NaN}})",
                              "", R"({"id":"q","span_id":"a","stats":{"mean":-Infinity}})"))
                  .ok());
  EXPECT_EQ(batch_.spans.at(0).attrs, R"("lr":"NaN")");
  EXPECT_EQ(batch_.snapshots.at(0).json,
            R"({"id":"q","span_id":"a","stats":{"mean":"-Infinity"}})");
  EXPECT_EQ(batch_.snapshots.at(0).span_id, batch_.spans.at(0).id);
}

TEST_F(ReaderTest, TheSpanOfAMarkMayBeRoot) {
  ASSERT_TRUE(
      read(
          batch_with(
              "",
              R"({"id":"m","span_id":"root","name":"x","value_type":"int","value":1,"attrs":{},"ts_ns":1,"kind":"point"})"))
          .ok());
  EXPECT_FALSE(batch_.marks.at(0).span_id);
}

TEST_F(ReaderTest, ForeignIdsStillFindEachOther) {
  ASSERT_TRUE(
      read(
          batch_with(
              R"({"id":"span-2","name":"c","parent_id":"span-1","start_ns":1,"end_ns":2},{"id":"span-1","name":"p","start_ns":1,"end_ns":2})"))
          .ok());
  EXPECT_EQ(batch_.spans[0].parent_id, batch_.spans[1].id);
}

TEST_F(ReaderTest, RepeatedNamesShareTheirText) {
  ASSERT_TRUE(
      read(
          batch_with(
              R"({"id":"1","name":"step","start_ns":1,"end_ns":2},{"id":"2","name":"step","start_ns":1,"end_ns":2})"))
          .ok());
  EXPECT_EQ(batch_.spans[0].name.data(), batch_.spans[1].name.data());
}

TEST_F(ReaderTest, ReadsWhatWeWrite) {
  model::Batch written;
  written.batch_id = {1, 2};
  written.created_ns = 77;
  model::Span span;
  span.id = {3, 4};
  span.name = "bad \xED\xA0\x80 \" name\n";
  span.attrs = R"("a":{"b":[true,null]})";
  span.start_ns = 5;
  span.end_ns = 6;
  span.rank = 1;
  span.mark_id_count = 1;
  written.mark_ids.push_back({5, 6});
  written.spans.push_back(span);
  model::Mark mark;
  mark.id = {5, 6};
  mark.span_id = {3, 4};
  mark.name = "loss";
  mark.real = std::numeric_limits<double>::infinity();
  mark.summary = true;
  written.marks.push_back(mark);
  base::JsonWriter json;
  encode_batch(json, written);

  const base::Status status = read(json.view());
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(batch_.batch_id, written.batch_id);
  EXPECT_EQ(batch_.spans.at(0).name, span.name);
  EXPECT_EQ(batch_.spans.at(0).attrs, span.attrs);
  EXPECT_EQ(batch_.mark_ids.at(0), (base::Id{5, 6}));
  EXPECT_EQ(batch_.marks.at(0).real, mark.real);
  EXPECT_TRUE(batch_.marks.at(0).summary);
}

TEST_F(ReaderTest, RefusesWhatIsNoBatch) {
  const std::string good =
      batch_with(R"({"id":"a","name":"n","start_ns":1,"end_ns":2,"attrs":{}})");
  for (const std::string& text : {std::string(),
                                  std::string("{}"),
                                  std::string("[]"),
                                  std::string("null"),
                                  std::string("hello"),
                                  good.substr(0, good.size() - 1),
                                  good.substr(0, good.size() / 2),
                                  good + "{}",
                                  std::string(R"({"schema_version":"1"})"),
                                  std::string(R"({"schema_version":0})"),
                                  batch_with("7"),
                                  batch_with(R"({"id":"a"})"),
                                  batch_with(R"({"name":"a"})"),
                                  batch_with(R"({"id":"a","name":5})"),
                                  batch_with(R"({"id":"a","name":"n","start_ns":1.5})"),
                                  batch_with(R"({"id":"a","name":"n","attrs":{"x":}})"),
                                  batch_with(R"({"id":"a","name":"n","attrs":7})"),
                                  batch_with("", mark_with("int", "[]")),
                                  batch_with("", mark_with("float", "tru")),
                                  batch_with(R"({"id":"a","name":"\x"})"),
                                  batch_with(R"({"id":"a","name":"n","rank":99999999999})"),
                                  std::string("\xFF\xFE{\"schema_version\":1}")}) {
    EXPECT_EQ(read(text).error(), EINVAL) << text;
    EXPECT_TRUE(batch_.empty());
  }
  EXPECT_TRUE(read(good).ok()) << "the reader is not spoilt by what it refused";
}

TEST_F(ReaderTest, RefusesANewerSchema) {
  const base::Status status =
      read(R"({"schema_version":2,"spans":[{"id":"a","name":"n","start_ns":1,"end_ns":2}]})");
  EXPECT_EQ(status.error(), EPROTO);
  EXPECT_TRUE(batch_.empty());
}

TEST_F(ReaderTest, TimingsAreOnlyTimings) {
  ASSERT_TRUE(
      read(
          batch_with(
              R"({"id":"a","name":"n","parent_id":"b","index":4,"start_ns":1,"end_ns":9,"gpu_ns":3,"rank":2,"pid":7,"attrs":{"x":1},"mark_ids":["m"]})",
              mark_with("int", "1")),
          Detail::kTimings)
          .ok());
  const model::Span& span = batch_.spans.at(0);
  EXPECT_EQ(span.duration_ns(), 8);
  EXPECT_EQ(span.index, 4);
  EXPECT_EQ(span.gpu_ns, 3);
  EXPECT_EQ(span.rank, 2);
  EXPECT_TRUE(span.attrs.empty());
  EXPECT_TRUE(batch_.marks.empty());
  EXPECT_TRUE(batch_.mark_ids.empty());
}

TEST_F(ReaderTest, TimingsKeepWhatSaysHowToReadThem) {
  const auto with_attrs = [&](std::string_view attrs) {
    const std::string span = R"({"id":"a","name":"n","start_ns":1,"end_ns":9,"attrs":)" +
                             std::string(attrs) + R"(,"rank":3})";
    EXPECT_TRUE(read(batch_with(span), Detail::kTimings).ok());
    EXPECT_EQ(batch_.spans.at(0).rank, 3);
    return batch_.spans.at(0);
  };
  EXPECT_TRUE(with_attrs(R"({"mode":"train","timing":"dispatch"})").dispatched());
  EXPECT_FALSE(with_attrs(R"({"mode":"train","other":"dispatch"})").dispatched());
  EXPECT_FALSE(with_attrs("{}").dispatched());
  EXPECT_FALSE(with_attrs("null").dispatched());
  EXPECT_EQ(with_attrs(R"({"sonde.hint":"do this now"})").attr(base::kHintAttr).text(),
            "do this now");
  EXPECT_TRUE(with_attrs(R"({"note":"timing and more of it"})").attrs.empty()) << "no name of it";
}

}  // namespace
}  // namespace sonde::codec
