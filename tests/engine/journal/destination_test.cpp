// What recovery promises its destination, whatever that does: it accepts, it fails, it throws.
// Nothing is lost, nothing comes twice, and a journal stays until all of it has arrived.
#include "engine/journal/destination.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <new>
#include <string>
#include <unordered_set>

#include <gtest/gtest.h>

#include "tests/engine/journal/memory_destination.h"
#include "tests/engine/support/dead_journal.h"

namespace sonde::journal {
namespace {

using testing::leave_journal;
using testing::MemoryDestination;
using testing::recover_into;
using testing::TempDir;

constexpr std::size_t kSpans = 70'000;  // three batches

std::string leave_long_journal(const TempDir& dir, const std::string& name = "dead") {
  const auto record = [] {
    for (std::size_t i = 0; i < kSpans - 1; ++i) testing::close(testing::open("x"));
    testing::open("open");
  };
  return leave_journal(dir.path(), record, name);
}

void expect_each_once(const MemoryDestination& destination, std::size_t spans = kSpans) {
  std::unordered_set<base::Id, base::IdHash> seen;
  for (const model::Span& span : destination.all.spans) seen.insert(span.id);
  EXPECT_EQ(seen.size(), spans);
  EXPECT_EQ(destination.all.spans.size(), spans) << "one of them twice";
}

// From the n-th time on, does what a full destination does.
auto from_batch(int n, base::Status (*then)()) {
  return [n, then]() mutable { return n-- > 1 ? base::Status() : then(); };
}

base::Status fail() { return {ENOSPC, "no room"}; }
base::Status throw_instead() { throw std::bad_alloc(); }

TEST(Destination, ThatAcceptsGetsEverything) {
  const TempDir dir;
  MemoryDestination destination;
  const std::string path = leave_long_journal(dir);
  const Recovery recovery = recover_into(destination, dir.path());
  EXPECT_EQ(recovery.spans, kSpans - 1);
  EXPECT_EQ(recovery.open_scopes, 1u);
  EXPECT_EQ(destination.batches(), 3u);
  EXPECT_FALSE(std::filesystem::exists(path));
  expect_each_once(destination);
}

TEST(Destination, ThatFailsLeavesTheJournal) {
  for (const int batch : {1, 2, 3}) {
    const TempDir dir;
    MemoryDestination destination;
    const std::string path = leave_long_journal(dir);
    destination.before = from_batch(batch, fail);
    const Recovery refused = recover_into(destination, dir.path());
    EXPECT_EQ(refused.journals, 0u);
    EXPECT_EQ(refused.spans, destination.all.spans.size()) << "what has arrived";
    ASSERT_EQ(refused.problems.size(), 1u);
    EXPECT_TRUE(refused.problems[0].starts_with("no room")) << refused.problems[0];
    EXPECT_TRUE(std::filesystem::exists(path));

    destination.before = [] { return base::Status(); };
    const Recovery later = recover_into(destination, dir.path());
    EXPECT_EQ(refused.spans + later.spans + later.open_scopes, kSpans);
    EXPECT_FALSE(std::filesystem::exists(path));
    expect_each_once(destination);
  }
}

// As with no memory for the text of the batch.
TEST(Destination, ThatThrowsLeavesTheJournal) {
  for (const int batch : {1, 2, 3}) {
    const TempDir dir;
    MemoryDestination destination;
    const std::string path = leave_long_journal(dir);
    destination.before = from_batch(batch, throw_instead);
    EXPECT_THROW(recover_into(destination, dir.path()), std::bad_alloc);
    EXPECT_TRUE(std::filesystem::exists(path));

    destination.before = [] { return base::Status(); };
    EXPECT_EQ(recover_into(destination, dir.path()).journals, 1u);
    EXPECT_FALSE(std::filesystem::exists(path));
    expect_each_once(destination);
  }
}

// The batch is there, but the recovering process does not get to know it.
TEST(Destination, ThatThrowsAfterABatchArrivedDoesNotGetItAgain) {
  for (const std::size_t batch : {1u, 2u, 3u}) {
    const TempDir dir;
    MemoryDestination destination;
    const std::string path = leave_long_journal(dir);
    destination.after = [&] {
      if (destination.batches() == batch) throw std::bad_alloc();
    };
    EXPECT_THROW(recover_into(destination, dir.path()), std::bad_alloc);
    EXPECT_TRUE(std::filesystem::exists(path));

    EXPECT_EQ(recover_into(destination, dir.path()).journals, 1u);
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_EQ(destination.batches(), 3u);
    expect_each_once(destination);
  }
}

TEST(Destination, ThatFailsOnceGetsTheOtherJournals) {
  const TempDir dir;
  MemoryDestination destination;
  const std::string first = leave_long_journal(dir, "1"), second = leave_long_journal(dir, "2");
  int calls = 0;
  destination.before = [&] { return ++calls == 1 ? fail() : base::Status(); };
  const Recovery recovery = recover_into(destination, dir.path());
  EXPECT_EQ(recovery.problems.size(), 1u);
  EXPECT_EQ(recovery.journals, 1u);
  EXPECT_TRUE(std::filesystem::exists(first));
  EXPECT_FALSE(std::filesystem::exists(second));
  recover_into(destination, dir.path());
  expect_each_once(destination, 2 * kSpans);
}

}  // namespace
}  // namespace sonde::journal
