// The trace of a source, which may be a directory or anything else.
#include "engine/run/trace.h"

#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "engine/run/directory_source.h"
#include "engine/run/summary.h"
#include "engine/spool/directory.h"
#include "tests/engine/run/memory_source.h"
#include "tests/engine/support/ring_tap.h"
#include "tests/engine/support/spans.h"
#include "tests/engine/support/temp_dir.h"

namespace sonde::run {
namespace {

using testing::mark;
using testing::MemorySource;
using testing::names_of;
using testing::on_rank;
using testing::span;
using testing::TempDir;
using What = model::Missing::What;
using Names = std::vector<std::string>;

constexpr std::int64_t kSecond = 1'000'000;        // in microseconds, as the spans have them
constexpr std::int64_t kSlackNs = 10'000'000'000;  // as a directory allows for

model::Batch batch_of(std::uint64_t number, std::vector<model::Span> spans) {
  model::Batch batch;
  batch.batch_id = {7, number};
  batch.created_ns = spans.back().end_ns;
  batch.sdk_version = "x";
  for (model::Span& each : spans) {
    const auto value = static_cast<double>(each.id.lo);
    const std::string_view name = batch.arena.copy("m" + std::string(each.name));
    batch.marks.push_back(mark(each.id.lo, each.id.lo, name, value));
    batch.marks.back().ts_ns = each.start_ns;
    each.first_mark_id = static_cast<std::uint32_t>(batch.mark_ids.size());
    each.mark_id_count = 1;
    batch.mark_ids.push_back(batch.marks.back().id);
  }
  batch.spans = std::move(spans);
  return batch;
}

// Far enough apart that the end of the run can be told from its beginning by the times of batches.
std::vector<model::Batch> three_batches() {
  std::vector<model::Batch> out;
  out.push_back(batch_of(
      1, {span(1, 9, "load", 0, 1 * kSecond), on_rank(1, span(2, 0, "other", 0, 2 * kSecond))}));
  out.push_back(batch_of(2, {span(3, 4, "inner", 100 * kSecond, 101 * kSecond),
                             span(4, 9, "step", 100 * kSecond, 102 * kSecond, 5)}));
  out.push_back(batch_of(3, {span(9, 0, "acme.session", 0, 200 * kSecond)}));
  return out;
}

// The same run in a directory and in memory.
class BothSources : public ::testing::Test {
 protected:
  void SetUp() override {
    spool::Directory spool(dir_.path(), ~std::uint64_t{0});
    for (const model::Batch& batch : three_batches()) {
      const std::string json = testing::json_of(batch);
      ASSERT_TRUE(spool.write(batch.created_ns, batch.batch_id, json).ok());
      memory_.store(std::to_string(batch.created_ns), json, batch.created_ns + kSlackNs);
    }
    Location place;
    ASSERT_TRUE(locate(dir_.path(), place).ok());
    directory_.emplace(std::move(place));
  }

  // Reads both, and expects the same of both.
  Trace read(const TraceQuery& query) {
    Trace one = read_trace(*directory_, query);
    const Trace other = read_trace(memory_, query);
    EXPECT_EQ(names_of(one.spans), names_of(other.spans));
    EXPECT_EQ(marks_of(one), marks_of(other));
    EXPECT_EQ(one.mark_ids.size(), other.mark_ids.size());
    EXPECT_EQ(one.runs.count(), other.runs.count());
    EXPECT_EQ(one.all_runs, other.all_runs);
    EXPECT_EQ(one.spans_read, other.spans_read);
    EXPECT_EQ(one.missing.size(), other.missing.size());
    EXPECT_EQ(one.skipped.read, other.skipped.read);
    return one;
  }
  static Names marks_of(const Trace& trace) {
    Names names;
    for (const model::Mark& each : trace.marks) names.emplace_back(each.name);
    return names;
  }

  TempDir dir_;
  std::optional<DirectorySource> directory_;
  MemorySource memory_;
};

TEST_F(BothSources, Everything) {
  const Trace trace = read({});
  EXPECT_EQ(names_of(trace.spans), (Names{"load", "other", "inner", "step", "acme.session"}));
  EXPECT_EQ(marks_of(trace), (Names{"mload", "mother", "minner", "mstep", "macme.session"}));
  EXPECT_EQ(trace.mark_ids.at(trace.spans[3].first_mark_id), (base::Id{1, 4}));
  EXPECT_EQ(trace.skipped.read, 3u);
  EXPECT_TRUE(trace.missing.empty());
}

TEST_F(BothSources, TheLastSpansWithoutReadingTheRest) {
  const Trace trace = read({.choice = {}, .last = 1});
  EXPECT_EQ(names_of(trace.spans), (Names{"acme.session"}));
  EXPECT_FALSE(trace.all_runs);
  memory_.reads = 0;
  const Trace two = read_trace(memory_, {.choice = {.rank = 0, .run = {}, .name = {}}, .last = 2});
  EXPECT_EQ(names_of(two.spans), (Names{"acme.session", "step"}));
  EXPECT_EQ(marks_of(two), (Names{"macme.session", "mstep"}));
  EXPECT_EQ(memory_.reads, 2) << "nothing in the first batch ended as late";
}

TEST_F(BothSources, ARankAndAName) {
  EXPECT_EQ(names_of(read({.choice = {.rank = 1, .run = {}, .name = {}}, .last = {}}).spans),
            (Names{"other"}));
  EXPECT_EQ(names_of(read({.choice = {.rank = {}, .run = {}, .name = "step"}, .last = {}}).spans),
            (Names{"inner", "step"}));
}

TEST_F(BothSources, WhatIsMissingIsAValue) {
  const Trace rank = read({.choice = {.rank = 3, .run = {}, .name = "nope"}, .last = {}});
  ASSERT_EQ(rank.missing.size(), 1u) << "no name is missing where no span is left";
  EXPECT_EQ(rank.missing[0].what, What::kRank);
  EXPECT_EQ(rank.missing[0].wanted, "3");
  EXPECT_EQ(rank.missing[0].there, (Names{"0", "1"}));
  const Trace name = read({.choice = {.rank = 0, .run = {}, .name = "nope"}, .last = {}});
  ASSERT_EQ(name.missing.size(), 1u);
  EXPECT_EQ(name.missing[0].what, What::kName);
  EXPECT_EQ(name.missing[0].there, (Names{"acme.session", "inner", "load", "step"}));
  const Trace run =
      read({.choice = {.rank = {}, .run = {RunChoice::Which::kNumber, 2}, .name = {}}, .last = {}});
  ASSERT_EQ(run.missing.size(), 1u);
  EXPECT_EQ(run.missing[0].what, What::kRun);
  EXPECT_EQ(run.missing[0].there, (Names{"1"}));
  EXPECT_TRUE(run.spans.empty());
}

TEST_F(BothSources, AsAStream) {
  for (Source* source : {static_cast<Source*>(&*directory_), static_cast<Source*>(&memory_)}) {
    Names seen;
    const auto take = [&](const std::vector<model::Span>& spans) {
      for (const std::string& name : names_of(spans)) seen.push_back(name);
    };
    const Stream all = stream_spans(*source, {}, take);
    EXPECT_EQ(seen, (Names{"load", "other", "inner", "step", "acme.session"}));
    EXPECT_EQ(all.skipped.read, 3u);
    seen.clear();
    const Stream none = stream_spans(
        *source, {.rank = {}, .run = {RunChoice::Which::kNumber, 7}, .name = {}}, take);
    EXPECT_TRUE(seen.empty());
    ASSERT_EQ(none.missing.size(), 1u);
    EXPECT_EQ(none.missing[0].what, What::kRun);
  }
}

TEST_F(BothSources, AddedUp) {
  for (Source* source : {static_cast<Source*>(&*directory_), static_cast<Source*>(&memory_)}) {
    const RunSummary all = summarize(*source, {});
    EXPECT_EQ(all.summary.spans, 5u);
    EXPECT_EQ(all.chosen_runs, 1u);
    EXPECT_TRUE(all.missing.empty());
    EXPECT_EQ(all.skipped.read, 3u);
    const RunSummary named = summarize(*source, {.rank = {}, .run = {}, .name = "step"});
    ASSERT_EQ(named.summary.ranks.size(), 1u);
    ASSERT_EQ(named.summary.ranks[0].roots.size(), 1u);
    EXPECT_EQ(named.summary.ranks[0].roots[0].name, "step");
    const RunSummary none = summarize(*source, {.rank = {}, .run = {}, .name = "stop"});
    EXPECT_TRUE(none.summary.ranks.empty());
    ASSERT_EQ(none.missing.size(), 1u);
    EXPECT_EQ(none.missing[0].what, What::kName);
  }
}

// Inspected before it is stored, and read afterwards: seen twice.
TEST(ReadTrace, ASpanInAJournalAndInABatchComesOnce) {
  MemorySource source;
  source.store("1", testing::json_of(batch_of(1, {span(1, 9, "moved", 0, 10)})), 10'000);
  source.start("p", [](Process& out) {
    out.records = batch_of(0, {span(1, 9, "moved", 0, 10), span(2, 9, "fresh", 10, 20)});
    out.state.open.push_back({span(9, 0, "acme.session", 0, model::kNone), 0, 0, false, true});
  });
  const Trace trace = read_trace(source, {});
  EXPECT_EQ(names_of(trace.spans), (Names{"moved", "fresh", "acme.session"}));
  EXPECT_TRUE(trace.spans.back().open());
  EXPECT_EQ(trace.marks.size(), 2u);
}

// A process that stores its records between the listing of the source and the reading of its
// journal: they are in a batch that was not listed, and no longer in the journal.
class StoredMeanwhile : public ::testing::Test {
 protected:
  void SetUp() override {
    source_.start("p", [this](Process& out) {
      if (!stored_) {
        source_.store_unlisted("2", testing::json_of(batch_of(2, {span(2, 9, "moved", 10, 20)})),
                               20'000);
      }
      stored_ = true;
      out.records = batch_of(0, {span(3, 9, "fresh", 20, 30)});
      out.state.open.push_back({span(9, 0, "acme.session", 0, model::kNone), 0, 0, false, true});
    });
    source_.store("1", testing::json_of(batch_of(1, {span(1, 9, "old", 0, 10)})), 10'000);
  }

  MemorySource source_;
  bool stored_ = false;
};

TEST_F(StoredMeanwhile, IsInTheTraceOnce) {
  const Trace trace = read_trace(source_, {});
  EXPECT_EQ(names_of(trace.spans), (Names{"fresh", "acme.session", "old", "moved"}));
  EXPECT_EQ(trace.marks.size(), 3u);
}

TEST_F(StoredMeanwhile, IsAmongTheLastSpansOnce) {
  const Trace trace = read_trace(source_, {.choice = {}, .last = 4});
  EXPECT_EQ(names_of(trace.spans), (Names{"acme.session", "fresh", "moved", "old"}));
}

TEST_F(StoredMeanwhile, IsInTheStreamOnce) {
  Names seen;
  stream_spans(source_, {}, [&](const std::vector<model::Span>& spans) {
    for (const std::string& name : names_of(spans)) seen.push_back(name);
  });
  EXPECT_EQ(seen, (Names{"old", "moved", "fresh", "acme.session"}));
}

// Notes how much memory is in use whenever a batch is read.
class WatchedSource : public MemorySource {
 public:
  base::Status read(const std::string& batch, run::Detail detail, model::Batch& out) override {
    used.push_back(::mallinfo2().uordblks);
    return MemorySource::read(batch, detail, out);
  }
  std::vector<std::size_t> used;
};

TEST(ReadTrace, TheLastSpansHoldNothingOfTheBatchesThatWerePassed) {
  constexpr std::uint64_t kBatches = 60, kSpans = 100;
  WatchedSource source;
  std::size_t batch_bytes = 0;
  for (std::uint64_t number = 0; number < kBatches; ++number) {
    model::Batch batch;
    for (std::uint64_t i = 0; i < kSpans; ++i) {
      const std::uint64_t id = number * kSpans + i + 1;
      const auto end = static_cast<std::int64_t>(id);
      model::Span& added = batch.spans.emplace_back(span(id, 9, "load", 0, end));
      // One span in some batches is of the wanted rank.
      added.rank = number % 20 == 0 && i == 0 ? 1 : 0;
      added.attrs = batch.arena.copy("\"text\":\"" + std::string(1000, 'x') + "\"");
      added.first_mark_id = static_cast<std::uint32_t>(i);
      added.mark_id_count = 1;
      batch.mark_ids.push_back({1, id});
      batch.marks.push_back(mark(id, id, "loss", 0.5));
    }
    const std::string json = testing::json_of(batch);
    batch_bytes = json.size();
    source.store(std::to_string(number), json, std::numeric_limits<std::int64_t>::max());
  }
  const Trace trace = read_trace(source, {.choice = {.rank = 1, .run = {}, .name = {}}, .last = 5});
  ASSERT_EQ(source.used.size(), kBatches);
  EXPECT_LT(source.used.back(), source.used[1] + 4 * batch_bytes);

  EXPECT_EQ(names_of(trace.spans), (Names{"load", "load", "load"}));
  EXPECT_EQ(trace.marks.size(), 3u);
  EXPECT_EQ(trace.mark_ids.size(), 3u);
  for (const model::Span& each : trace.spans) {
    EXPECT_EQ(each.attrs.size(), 1009u);
    EXPECT_EQ(trace.mark_ids.at(each.first_mark_id), (base::Id{1, each.id.lo}));
  }
  std::size_t held = 0;
  for (const base::Arena& arena : trace.arenas) held += arena.bytes();
  EXPECT_LT(held, batch_bytes);
}

TEST(ReadTrace, WhatCannotBeReadIsCountedAndNamed) {
  MemorySource source;
  for (int i = 0; i < 30; ++i) source.store(std::to_string(i), "garbage", 0);
  const Trace nothing = read_trace(source, {});
  EXPECT_TRUE(nothing.skipped.nothing_readable());
  source.store("x", testing::json_of(batch_of(1, {span(1, 0, "a", 0, 10)})), 10'000);
  const Trace some = read_trace(source, {});
  EXPECT_EQ(some.skipped.skipped, 30u);
  EXPECT_EQ(some.skipped.read, 1u);
  EXPECT_EQ(some.skipped.problems.size(), Skipped::kNamed);
  EXPECT_FALSE(some.skipped.nothing_readable());
}

}  // namespace
}  // namespace sonde::run
