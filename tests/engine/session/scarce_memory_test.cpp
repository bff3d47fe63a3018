// No memory for a batch while it is written: its records are written later or stay in the journal,
// and what is lost is counted.
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/deadline.h"
#include "engine/base/swallowed.h"
#include "engine/session/captures.h"
#include "engine/session/delivery.h"
#include "engine/spool/recovery.h"
#include "tests/engine/support/captures.h"
#include "tests/engine/support/running_session.h"
#include "tests/engine/support/test_sink.h"

namespace {

// Allocations from this size on fail; 0: none does.
std::atomic<std::size_t> g_too_large{0};

void* allocate(std::size_t bytes) {
  const std::size_t limit = g_too_large.load(std::memory_order_relaxed);
  if (limit != 0 && bytes >= limit) throw std::bad_alloc();
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* allocate_or_null(std::size_t bytes) noexcept {
  try {
    return allocate(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

// For the whole test program; a test that sets the limit runs in a child process. All forms that
// are given back by the two below: the address sanitizer has its own of each.
void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate_or_null(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace sonde::session {
namespace {

using testing::engine;
using testing::files_in;
using testing::in_child;
using testing::LogLines;
using testing::read_spool;
using testing::spool_to;
using testing::stop;
using testing::TempDir;

// The JSON of so many spans needs a buffer that is too large for kLimit; the spans themselves do
// not.
constexpr int kMany = 1000;
constexpr std::size_t kLimit = 256 * 1024;
static_assert(1024 * sizeof(model::Span) < kLimit);

// The drain thread has had its first look, and the next one comes with a flush().
void start(const TempDir& dir) {
  Options options = spool_to(dir.path());
  options.flush_interval_ns = 3'600'000'000'000;
  engine().start(options);
  engine().flush();
}

void record(int count) {
  for (int i = 0; i < count; ++i) testing::close(testing::open("x"));
}

void fail_to_write_many() {
  record(kMany);
  g_too_large.store(kLimit);
  engine().flush();
  g_too_large.store(0);
}

TEST(ScarceMemory, ABatchThatCouldNotBeEncodedIsWrittenLater) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    start(dir);
    fail_to_write_many();
    EXPECT_TRUE(LogLines::has("the spool sink failed (std::bad_alloc)")) << LogLines::all();
    EXPECT_GE(engine().counters().swallowed.by_place.at("spool sink"), 1u);
    EXPECT_EQ(testing::trace().spans.size(), kMany + 1u);
    EXPECT_EQ(read_spool(dir.path()).spans.size(), std::size_t{kMany});
    record(5);
    stop();
    EXPECT_EQ(read_spool(dir.path()).spans.size(), kMany + 6u) << "each of them once";
    EXPECT_EQ(engine().counters().lost_batches, 0u);
    EXPECT_TRUE(files_in(dir / "live").empty());
  });
}

TEST(ScarceMemory, TheNextBatchDoesNotPassOverOneThatWaits) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    start(dir);
    fail_to_write_many();
    record(5);  // written in one tick with those that wait
    stop();
    EXPECT_EQ(read_spool(dir.path()).spans.size(), kMany + 6u);
    EXPECT_TRUE(files_in(dir / "live").empty());
  });
}

TEST(ScarceMemory, SinksWhoseThreadCouldNotBeStartedAreFlushedAllTheSame) {
  in_child([] {
    LogLines log;
    const auto sink = std::make_shared<testing::TestSink>();
    int accepted = 0, flushed = 0;
    sink->on_accept = [&](const OutgoingBatch&) { ++accepted; };
    sink->on_flush = [&](std::uint64_t, bool) { return ++flushed, true; };
    Delivery delivery(sink);
    const auto batch = std::make_shared<const OutgoingBatch>();
    base::reset_swallowed();  // as a session does: the counters have their memory
    g_too_large.store(1);
    delivery.accept(batch, 0);
    g_too_large.store(0);
    delivery.flush(0, false);
    delivery.await(base::deadline_after(20'000'000'000));
    EXPECT_EQ(accepted, 1);
    EXPECT_EQ(flushed, 1);
  });
}

TEST(ScarceMemory, TheEndOfADeliveryNeedsNone) {
  in_child([] {
    LogLines log;
    Delivery delivery(std::make_shared<testing::TestSink>());
    g_too_large.store(1);
    delivery.close();
    g_too_large.store(0);
    EXPECT_EQ(LogLines::count("was stuck"), 0u);
  });
}

TEST(ScarceMemory, TheJournalRemembersItsSessionWithoutAny) {
  in_child([] {
    record::Journal& journal = record::Journal::instance();
    g_too_large.store(1);
    journal.remember_session();
    g_too_large.store(0);
  });
}

TEST(ScarceMemory, AThreadWhoseFirstRecordWakesTheSessionDoesNotNotice) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    Options options = spool_to(dir.path());
    options.on_demand = true;
    engine().start(options);
    g_too_large.store(1);
    record(1);
    g_too_large.store(0);
    record(5);
    EXPECT_EQ(testing::trace().spans.size(), 7u);
    EXPECT_GE(engine().counters().swallowed.count, 1u);
    stop();
  });
}

// Records of captures for which there is no memory are counted, and do not keep others out.
TEST(ScarceMemory, RecordsOfCapturesThatCouldNotBeEncodedAreCounted) {
  in_child([] {
    Captures captures;
    model::Batch batch;
    captures.add(testing::capture_of(2, std::string(2 * kLimit, 'w')));
    captures.add(testing::capture_of(2));
    captures.look();
    base::reset_swallowed();
    g_too_large.store(kLimit);
    EXPECT_FALSE(captures.collect(1000, true, batch));
    g_too_large.store(0);
    EXPECT_EQ(captures.lost(), 2u);
    EXPECT_EQ(captures.collected(), 2u);
    EXPECT_EQ(batch.snapshots.size(), 2u);
    EXPECT_TRUE(captures.add(testing::capture_of(Captures::kMaxRecords))) << "nothing waits";
  });
}

// The list of spans cannot grow in the middle of a pass over the rings.
TEST(ScarceMemory, APassThatFindsNoMemoryHalfWayLosesNothing) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    start(dir);
    record(kMany);
    g_too_large.store(64 * 1024);
    engine().flush();
    g_too_large.store(0);
    EXPECT_GE(engine().counters().swallowed.by_place.at("flush"), 1u);
    engine().flush();
    EXPECT_EQ(read_spool(dir.path()).spans.size(), std::size_t{kMany});
    stop();
    EXPECT_EQ(read_spool(dir.path()).spans.size(), kMany + 1u);
  });
}

TEST(ScarceMemory, ALastPassThatFindsNoMemoryHalfWayLosesNothing) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    start(dir);
    record(kMany);
    g_too_large.store(64 * 1024);
    stop();
    g_too_large.store(0);
    EXPECT_EQ(files_in(dir / "live").size(), 1u);
    for (const model::Span& span : testing::trace().spans) EXPECT_FALSE(span.open()) << span.name;
    record(1);
    const model::Batch between = testing::trace();
    ASSERT_EQ(between.spans.size(), 1u);
    EXPECT_FALSE(between.spans[0].parent_id) << "the session is over";
    engine().start(spool_to(dir / "next"));
    record(1);
    stop();
    EXPECT_EQ(read_spool(dir / "next").spans.size(), 3u) << "of its own, and the one before it";
  });
  EXPECT_GT(spool::recover_directory(dir.path()).spans, 0u);
  EXPECT_EQ(read_spool(dir.path()).spans.size(), kMany + 1u);
}

// What live lines need besides: here the scopes that are open do not fit.
TEST(ScarceMemory, ABatchGoesOnWithoutTheContextForWhichThereIsNoMemory) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    const auto sink = std::make_shared<testing::TestSink>();
    sink->wanted.context = true;
    Options options = testing::with_sink(spool_to(dir.path()), sink);
    options.flush_interval_ns = 3'600'000'000'000;
    engine().start(options);
    engine().flush();
    std::vector<record::ScopeHandle> open;
    for (int i = 0; i < 60; ++i) open.push_back(testing::open("open"));
    record(10);
    static_assert(sizeof(model::Span) * 64 > 8 * 1024);
    g_too_large.store(8 * 1024);
    engine().flush();
    g_too_large.store(0);
    EXPECT_GE(engine().counters().swallowed.by_place.at("flush"), 1u);
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 10u);
    while (!open.empty()) testing::close(open.back()), open.pop_back();
    stop();
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 71u);
  });
}

// The drain thread looks into the spool directory when it has nothing else to do.
TEST(ScarceMemory, NoMemoryWhileItIsIdleEndsNothing) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    {
      const testing::RunningSession first(spool_to(dir.path()));
      record(1);
    }
    Options options = spool_to(dir.path());
    options.flush_interval_ns = 1'000'000;
    engine().start(options);
    g_too_large.store(1);
    ::usleep(100'000);
    g_too_large.store(0);
    record(1);
    stop();
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 4u);
  });
}

TEST(ScarceMemory, AtTheEndTheJournalKeepsWhatCouldNotBeWritten) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    start(dir);
    record(kMany);
    g_too_large.store(kLimit);
    stop();
    g_too_large.store(0);
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 0u);
    EXPECT_TRUE(LogLines::has("1 batches could not be written")) << LogLines::all();
    EXPECT_EQ(files_in(dir / "live").size(), 1u);
  });
  EXPECT_EQ(spool::recover_directory(dir.path()).spans, kMany + 1u);
  EXPECT_EQ(read_spool(dir.path()).spans.size(), kMany + 1u);
}

TEST(ScarceMemory, ABatchThatFailsTwiceIsCountedAsLostAndTheJournalStays) {
  const TempDir dir;
  in_child([&] {
    LogLines log;
    start(dir);
    record(kMany);
    g_too_large.store(kLimit);
    engine().flush();
    record(5);
    engine().flush();
    g_too_large.store(0);
    EXPECT_EQ(engine().counters().lost_batches, 1u);
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 5u) << "later batches are written";
    record(5);
    stop();
    EXPECT_EQ(read_spool(dir.path()).spans.size(), 11u);
    EXPECT_EQ(engine().counters().lost_batches, 1u) << "of the session that ended";
    EXPECT_EQ(files_in(dir / "live").size(), 1u) << "not everything was written";
  });
  EXPECT_EQ(spool::recover_directory(dir.path()).spans, 0u) << "nothing is there twice";
}

}  // namespace
}  // namespace sonde::session
