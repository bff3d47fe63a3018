#include "engine/record/names.h"

#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/record/journal.h"
#include "tests/engine/support/child.h"
#include "tests/engine/support/ring_tap.h"

namespace sonde::record {
namespace {

TEST(Names, SameTextHasOneIdForEver) {
  const std::uint32_t id = intern("names.same");
  EXPECT_NE(id, 0u);
  EXPECT_EQ(intern(std::string("names.") + "same"), id);
  EXPECT_NE(intern("names.other"), id);
  EXPECT_EQ(name_text(id), "names.same");
}

TEST(Names, NoneIsEmpty) { EXPECT_EQ(name_text(0), ""); }

TEST(Names, AnyBytesAreKept) {
  const std::string text("a\0b\n\"\xC3\xA9", 7);
  EXPECT_EQ(name_text(intern(text)), text);
  EXPECT_EQ(name_text(intern("")), "");
}

TEST(Names, TooLongIsRefused) {
  EXPECT_NE(intern(std::string(kMaxInternedBytes, 'x')), 0u);
  EXPECT_EQ(intern(std::string(kMaxInternedBytes + 1, 'x')), 0u);
}

TEST(Names, ReaderOfTheJournalFindsThemAtTheSameId) {
  const std::uint32_t id = intern("names.journal");
  const journal::View view{reinterpret_cast<const std::byte*>(&Journal::instance().header()),
                           kMaxBlocks};
  const std::string_view text = view.name(id);
  EXPECT_EQ(text, "names.journal");
  EXPECT_EQ(interned_id(text), id);
  EXPECT_EQ(interned_id("names.journal"), 0u) << "equal text elsewhere is not the journal's";
}

TEST(Names, ManyThreadsAgree) {
  constexpr int kThreads = 8, kNames = 200;
  std::vector<std::vector<std::uint32_t>> ids(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : ids) {
    threads.emplace_back([&mine] {
      for (int i = 0; i < kNames; ++i) mine.push_back(intern("names.thread." + std::to_string(i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : ids) EXPECT_EQ(mine, ids.front());
  EXPECT_EQ(std::set<std::uint32_t>(ids[0].begin(), ids[0].end()).size(), std::size_t{kNames});
}

TEST(Names, FullTableSaysNoAndScopesCarryTheirOwnText) {
  testing::in_child([] {
    open_gate();
    testing::RingTap tap;
    int taken = 0;
    while (intern("filler " + std::to_string(taken) + std::string(1000, 'x')) != 0) ++taken;
    while (intern("f" + std::to_string(taken)) != 0) ++taken;
    EXPECT_GT(taken, 900);
    const std::string name = "no room for this one";
    EXPECT_EQ(intern(name), 0u);
    EXPECT_NE(intern("sonde.session"), 0u) << "what is there stays there";

    ThreadState* thread = this_thread();
    const ScopeHandle handle =
        open_scope(*thread, *thread->lane, {.name_text = name, .attrs = R"("a":1)"});
    write_mark(*thread, *thread->lane, {.real = 2, .name_text = "mark without room"});
    EXPECT_TRUE(testing::close(handle));
    const model::Batch batch = tap.take();
    ASSERT_EQ(batch.spans.size(), 1u);
    EXPECT_EQ(batch.spans[0].name, name);
    EXPECT_EQ(batch.spans[0].attrs, R"("a":1)");
    ASSERT_EQ(batch.marks.size(), 1u);
    EXPECT_EQ(batch.marks[0].name, "mark without room");
  });
}

TEST(Names, ChildKeepsTheIdsOfItsParent) {
  const std::uint32_t id = intern("names.inherited");
  open_gate();
  testing::in_child([id] {
    EXPECT_EQ(intern("names.inherited"), id);
    const journal::View view{reinterpret_cast<const std::byte*>(&Journal::instance().header()),
                             kMaxBlocks};
    EXPECT_EQ(view.name(id), "names.inherited")
        << "the child's journal is a new one, with all names in it";
  });
}

}  // namespace
}  // namespace sonde::record
