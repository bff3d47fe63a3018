#include "engine/model/span_fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/json_members.h"
#include "engine/model/json_values.h"

namespace sonde::model {
namespace {

template <unsigned kForm>
std::vector<std::string> names() {
  std::vector<std::string> out;
  for_each_field<kForm>([&]<typename One>(One) { out.emplace_back(One::kName); });
  return out;
}

// A form is public: what it has, in which order, changes on purpose or not at all.
TEST(SpanFields, OfEveryForm) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(names<kSpool>(),
            (Names{"id", "name", "parent_id", "index", "start_ns", "end_ns", "cpu_ns", "gpu_ns",
                   "memory_peak_bytes", "thread_id", "pid", "rank", "attrs", "mark_ids"}));
  EXPECT_EQ(names<kTree>(),
            (Names{"id", "parent_id", "name", "index", "start_ns", "end_ns", "wall_us", "cpu_ns",
                   "gpu_ns", "memory_peak_bytes", "pid", "rank", "attrs", "marks", "children"}));
  EXPECT_EQ(names<kColumns>(),
            (Names{"id", "parent_id", "name", "index", "start_ns", "end_ns", "wall_us", "cpu_ns",
                   "gpu_ns", "memory_peak_bytes", "thread_id", "pid", "rank", "mark_count", "depth",
                   "attrs", "marks"}));
  EXPECT_EQ(names<kFrame>(),
            (Names{"id", "parent_id", "name", "index", "wall_us", "cpu_ns", "gpu_ns",
                   "memory_peak_bytes", "mark_count", "depth", "start_ns", "attrs", "marks"}));
  EXPECT_EQ(names<kAutopsy>(), (Names{"id", "parent_id", "name", "index", "start_ns", "end_ns",
                                      "thread_id", "attrs"}));
}

// A member of Span reaches every place that shows or keeps spans.
TEST(SpanFields, AFieldOfTheSpoolIsInTheOtherFormsToo) {
  const auto all = [](const std::vector<std::string>& a, std::vector<std::string> b) {
    std::erase_if(b, [&](const std::string& name) { return std::ranges::count(a, name) != 0; });
    return b;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(all(names<kColumns>(), names<kSpool>()), (Names{"mark_ids"})) << "they have marks";
  EXPECT_EQ(all(names<kTree>(), names<kSpool>()), (Names{"thread_id", "mark_ids"}));
  EXPECT_EQ(all(names<kMemory>(), names<kSpool>()),
            (Names{"name", "pid", "rank", "attrs", "mark_ids"}))
      << "text and marks are held beside the numbers, pid and rank once for all";
}

TEST(SpanFields, WhatTimingsNeedIsInTheSpool) {
  for_each_field<kTimings>(
      []<typename One>(One) { EXPECT_NE(One::kForms & kSpool, 0u) << One::kName; });
}

TEST(SpanFields, AreFoundByPlace) {
  static_assert(place_of_field<kSpool>("gpu_ns") == 7);
  static_assert(place_of_field<kSpool>("no such") == field_count<kSpool>());
  std::string seen;
  visit_field_at<kSpool>(3, [&]<typename One>(One) { seen += One::kName; });
  visit_field_at<kSpool>(field_count<kSpool>(), [&]<typename One>(One) { seen += One::kName; });
  EXPECT_EQ(seen, "index");
}

TEST(SpanFields, KeysAreJson) {
  for_each_field<kSpool>([]<typename One>(One) {
    EXPECT_EQ(One::key(), ",\"" + std::string(One::kName) + "\":");
    EXPECT_EQ(One::quoted(), std::string(One::kName) + "\"");
  });
}

TEST(SpanFields, EveryMemberHasAJsonValue) {
  Span span;
  span.name = "a\"b";
  span.attrs = R"("x":{"y":1})";
  span.thread_id = ~std::uint64_t{0};
  base::JsonWriter out;
  for_each_field<kAutopsy>([&]<typename One>(One) {
    out.raw(One::key());
    write_field<One>(out, span);
  });
  EXPECT_EQ(base::find_member(out.view(), "name").text(), "a\"b");
  EXPECT_EQ(base::find_member(out.view(), "parent_id").raw(), "null");
  EXPECT_EQ(base::find_member(out.view(), "end_ns").raw(), "null");
  EXPECT_EQ(base::find_member(out.view(), "start_ns").integer(5), 0);
  EXPECT_EQ(base::find_member(out.view(), "thread_id").raw(), "18446744073709551615");
  EXPECT_EQ(base::find_member(out.view(), "attrs").raw(), R"({"x":{"y":1}})");
}

}  // namespace
}  // namespace sonde::model
