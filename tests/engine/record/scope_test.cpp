#include "engine/record/scope.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/support/child.h"
#include "tests/engine/support/ring_tap.h"

namespace sonde::record {
namespace {

using testing::find_span;
using testing::names_of;
using testing::RingTap;
using Names = std::vector<std::string>;

class Scope : public ::testing::Test {
 protected:
  void SetUp() override { open_gate(); }
};

TEST_F(Scope, ClosedScopeIsASpan) {
  RingTap tap;
  const base::ClockAnchor anchor = Journal::instance().header().anchor;
  const std::int64_t before = base::to_wall_ns(anchor, base::monotonic_ns());
  const ScopeHandle handle = testing::open("step", {.index = 7, .flags = kHasIndex});
  EXPECT_TRUE(is_open(handle));
  EXPECT_TRUE(testing::close(handle));
  EXPECT_FALSE(is_open(handle));
  const std::int64_t after = base::to_wall_ns(anchor, base::monotonic_ns());
  const model::Batch batch = tap.take();
  ASSERT_EQ(batch.spans.size(), 1u);
  const model::Span& span = batch.spans[0];
  EXPECT_EQ(span.id, tap.id_of(handle.sequence));
  EXPECT_FALSE(span.parent_id);
  EXPECT_EQ(span.name, "step");
  EXPECT_EQ(span.index, 7);
  EXPECT_EQ(span.attrs, "");
  EXPECT_LE(before, span.start_ns);
  EXPECT_LE(span.start_ns, span.end_ns);
  EXPECT_LE(span.end_ns, after);
  EXPECT_EQ(span.thread_id, static_cast<std::uint64_t>(pthread_self()));
  EXPECT_EQ(span.pid, getpid());
}

TEST_F(Scope, WithoutIndexHasNone) {
  RingTap tap;
  testing::close(testing::open("x", {.index = 9}));
  EXPECT_EQ(tap.take().spans.at(0).index, model::kNone);
}

TEST_F(Scope, NestingIsTheParent) {
  RingTap tap;
  const ScopeHandle a = testing::open("a"), b = testing::open("b"), c = testing::open("c");
  testing::close(c);
  testing::close(b);
  const ScopeHandle d = testing::open("d");
  testing::close(d);
  testing::close(a);
  const model::Batch batch = tap.take();
  EXPECT_EQ(names_of(batch.spans), (Names{"c", "b", "d", "a"}));
  EXPECT_EQ(find_span(batch.spans, "c")->parent_id, tap.id_of(b.sequence));
  EXPECT_EQ(find_span(batch.spans, "b")->parent_id, tap.id_of(a.sequence));
  EXPECT_EQ(find_span(batch.spans, "d")->parent_id, tap.id_of(a.sequence));
}

TEST_F(Scope, ClosingBelowClosesWhatIsAboveAndSaysSo) {
  RingTap tap;
  const ScopeHandle a = testing::open("a"), b = testing::open("b"), c = testing::open("c");
  EXPECT_TRUE(testing::close(a));
  EXPECT_FALSE(testing::close(c)) << "its parent closed it";
  EXPECT_FALSE(testing::close(b));
  EXPECT_FALSE(testing::close(a)) << "once is enough";
  const model::Batch batch = tap.take();
  EXPECT_EQ(names_of(batch.spans), (Names{"c", "b", "a"}));
  EXPECT_EQ(batch.spans[0].attrs, R"("sonde.closed_by":"parent")");
  EXPECT_EQ(batch.spans[1].attrs, R"("sonde.closed_by":"parent")");
  EXPECT_EQ(batch.spans[2].attrs, "");
  EXPECT_EQ(batch.spans[0].end_ns, batch.spans[2].end_ns);
  const ScopeHandle next = testing::open("next");
  testing::close(next);
  EXPECT_FALSE(tap.take().spans.at(0).parent_id) << "the stack is empty again";
}

TEST_F(Scope, OutOfOrderInTheMiddleKeepsTheRest) {
  RingTap tap;
  const ScopeHandle a = testing::open("a"), b = testing::open("b");
  testing::open("c");
  EXPECT_TRUE(testing::close(b));
  EXPECT_TRUE(is_open(a));
  const ScopeHandle d = testing::open("d");
  EXPECT_TRUE(testing::close(d));
  EXPECT_TRUE(testing::close(a));
  const model::Batch batch = tap.take();
  EXPECT_EQ(names_of(batch.spans), (Names{"c", "b", "d", "a"}));
  EXPECT_EQ(find_span(batch.spans, "d")->parent_id, tap.id_of(a.sequence));
}

TEST_F(Scope, HandleOfAReusedSlotIsRefused) {
  const ScopeHandle old = testing::open("old");
  testing::close(old);
  const ScopeHandle fresh = testing::open("fresh");
  EXPECT_EQ(fresh.slot, old.slot);
  EXPECT_FALSE(testing::close(old));
  EXPECT_TRUE(is_open(fresh));
  EXPECT_TRUE(testing::close(fresh));
}

TEST_F(Scope, WhereOneLiesRelativeToAnother) {
  const ScopeHandle a = testing::open("a"), b = testing::open("b"), c = testing::open("c");
  EXPECT_TRUE(is_directly_inside(b, a));
  EXPECT_TRUE(is_inside(b, a));
  EXPECT_TRUE(is_inside(c, a));
  EXPECT_FALSE(is_directly_inside(c, a)) << "b is between them";
  EXPECT_FALSE(is_inside(a, b));
  EXPECT_FALSE(is_inside(a, a));
  EXPECT_EQ(scopes_around(c), scopes_around(a) + 2);
  ScopeHandle elsewhere = a;
  elsewhere.stack = nullptr;
  EXPECT_FALSE(is_inside(b, elsewhere));
  EXPECT_FALSE(is_directly_inside(b, elsewhere));
  for (const ScopeHandle& each : {c, b, a}) testing::close(each);
}

TEST_F(Scope, SixtyFourDeepAndNoDeeper) {
  RingTap tap;
  std::vector<ScopeHandle> open;
  for (std::uint32_t i = 0; i < kMaxDepth; ++i)
    open.push_back(testing::open("deep", {.index = i, .flags = kHasIndex}));
  const Losses before = total_losses();
  EXPECT_TRUE(open.back());
  EXPECT_FALSE(testing::open("too deep"));
  EXPECT_FALSE(testing::open("too deep"));
  EXPECT_EQ(total_losses().depth, before.depth + 2);
  const std::uint64_t mark = testing::mark("inside", 1);
  for (auto it = open.rbegin(); it != open.rend(); ++it) EXPECT_TRUE(testing::close(*it));
  const model::Batch batch = tap.take();
  EXPECT_EQ(batch.spans.size(), std::size_t{kMaxDepth});
  ASSERT_EQ(batch.marks.size(), 1u);
  EXPECT_EQ(batch.marks[0].id, tap.id_of(mark));
  EXPECT_EQ(batch.marks[0].span_id, tap.id_of(open.back().sequence))
      << "the innermost that is open";
  const ScopeHandle again = testing::open("room again");
  EXPECT_TRUE(testing::close(again));
}

TEST_F(Scope, ClosedFromAnotherThread) {
  RingTap tap;
  const ScopeHandle a = testing::open("a"), b = testing::open("b");
  std::thread([&] {
    EXPECT_TRUE(is_open(b));
    EXPECT_TRUE(testing::close(b));
    EXPECT_FALSE(testing::close(b));
  }).join();
  EXPECT_FALSE(is_open(b));
  EXPECT_FALSE(testing::close(b));
  const ScopeHandle c = testing::open("c");
  EXPECT_EQ(c.slot, b.slot) << "the owner popped what was closed for it";
  testing::close(c);
  EXPECT_TRUE(testing::close(a));
  const model::Batch batch = tap.take();
  ASSERT_EQ(batch.spans.size(), 3u);
  EXPECT_EQ(find_span(batch.spans, "b")->attrs, "");
  EXPECT_EQ(find_span(batch.spans, "c")->parent_id, tap.id_of(a.sequence));
}

TEST_F(Scope, ClosedFromAnotherThreadInTheMiddle) {
  RingTap tap;
  const ScopeHandle a = testing::open("a"), b = testing::open("b"), c = testing::open("c");
  std::thread([&] { EXPECT_TRUE(testing::close(b)); }).join();
  EXPECT_FALSE(is_open(c)) << "what is above goes with it";
  EXPECT_FALSE(testing::close(c));
  const std::uint64_t mark = testing::mark("m", 1);
  const ScopeHandle d = testing::open("d");
  testing::close(d);
  EXPECT_TRUE(testing::close(a));
  const model::Batch batch = tap.take();
  EXPECT_EQ(batch.spans.size(), 4u);
  EXPECT_EQ(find_span(batch.spans, "c")->attrs, R"("sonde.closed_by":"parent")");
  EXPECT_EQ(find_span(batch.spans, "b")->attrs, "");
  EXPECT_EQ(batch.marks.at(0).id, tap.id_of(mark));
  EXPECT_EQ(batch.marks.at(0).span_id, tap.id_of(a.sequence));
  EXPECT_EQ(find_span(batch.spans, "d")->parent_id, tap.id_of(a.sequence));
}

TEST_F(Scope, ClosedElsewhereIsNotClosedAgainByItsParent) {
  RingTap tap;
  const ScopeHandle a = testing::open("a"), b = testing::open("b");
  std::thread([&] { testing::close(b); }).join();
  testing::close(a);
  EXPECT_EQ(tap.take().spans.size(), 2u);
}

TEST_F(Scope, ThreadThatEndsClosesItsScopes) {
  RingTap tap;
  ScopeHandle left;
  std::thread([&] {
    testing::open("outer");
    left = testing::open("left open");
  }).join();
  EXPECT_FALSE(testing::close(left));
  const model::Batch batch = tap.take();
  EXPECT_EQ(names_of(batch.spans), (Names{"left open", "outer"}));
  for (const model::Span& span : batch.spans)
    EXPECT_EQ(span.attrs, R"("sonde.closed_by":"thread_exit")");
}

TEST_F(Scope, AttributesFixedGivenAndReplaced) {
  RingTap tap;
  const std::uint32_t fixed = intern(R"("fixed":1)");
  testing::close(testing::open("fixed", {.static_attrs = fixed}));
  testing::close(testing::open("given", {.attrs = R"("given":2)"}));
  testing::close(testing::open("both", {.static_attrs = fixed, .attrs = R"("given":2)"}));
  testing::close(testing::open("replaced", {.attrs = R"("given":2)"}),
                 {.replace_attrs = true, .attrs = R"("late":3)"});
  testing::close(testing::open("emptied", {.attrs = R"("given":2)"}), {.replace_attrs = true});
  testing::close(testing::open("waited", {.flags = kHasDataLoad, .aux = 1234}));
  const model::Batch batch = tap.take();
  EXPECT_EQ(find_span(batch.spans, "fixed")->attrs, R"("fixed":1)");
  EXPECT_EQ(find_span(batch.spans, "given")->attrs, R"("given":2)");
  EXPECT_EQ(find_span(batch.spans, "both")->attrs, R"("fixed":1,"given":2)");
  EXPECT_EQ(find_span(batch.spans, "replaced")->attrs, R"("late":3)");
  EXPECT_EQ(find_span(batch.spans, "emptied")->attrs, "");
  EXPECT_EQ(find_span(batch.spans, "waited")->attrs, R"("data_load_ns":1234)");
}

TEST_F(Scope, AttributesTooLongForTheStackComeWithTheClose) {
  RingTap tap;
  const std::string attrs = R"("k":")" + std::string(10'000, 'x') + "\"";
  const ScopeHandle handle = testing::open("big", {.attrs = attrs});
  EXPECT_TRUE(testing::close(handle, {.replace_attrs = true, .attrs = attrs}));
  EXPECT_EQ(tap.take().spans.at(0).attrs, attrs);
}

TEST_F(Scope, AttributesTooLongForARecordAreLeftOutAndTheSpanStays) {
  RingTap tap;
  const std::string attrs(kMaxPayloadBytes + 1, 'x');
  const ScopeHandle handle = testing::open("huge", {.attrs = attrs});
  EXPECT_TRUE(testing::close(handle, {.replace_attrs = true, .attrs = attrs}));
  const model::Batch batch = tap.take();
  ASSERT_EQ(batch.spans.size(), 1u);
  EXPECT_EQ(batch.spans[0].attrs, "");
  EXPECT_EQ(batch.spans[0].name, "huge");
}

TEST_F(Scope, TextOfManyOpenScopesUsesTheStackAgainAndAgain) {
  ThreadState* thread = this_thread();
  for (int round = 0; round < 200; ++round) {
    RingTap tap;
    const std::string attrs =
        R"("round":)" + std::to_string(round) + R"(,"pad":")" + std::string(900, 'p') + "\"";
    std::vector<ScopeHandle> open;
    for (int i = 0; i < 4; ++i) open.push_back(testing::open("texts", {.attrs = attrs}));
    EXPECT_TRUE(testing::close(open[2])) << "takes the one above along";
    EXPECT_TRUE(testing::close(open[1]));
    EXPECT_TRUE(testing::close(open[0]));
    const model::Batch batch = tap.take();
    ASSERT_EQ(batch.spans.size(), 4u);
    EXPECT_EQ(batch.spans[1].attrs, attrs);
    EXPECT_EQ(batch.spans[3].attrs, attrs);
    EXPECT_EQ(thread->lane->arena_used, 0u);
  }
}

TEST_F(Scope, LongNameThatIsNotInternedIsKept) {
  RingTap tap;
  const std::string name(3000, 'n');
  ThreadState* thread = this_thread();
  testing::close(open_scope(*thread, *thread->lane, {.name_text = name}));
  EXPECT_EQ(tap.take().spans.at(0).name, name);
}

TEST_F(Scope, GuardRecordsToTheEndOfItsBlock) {
  RingTap tap;
  {
    SONDE_SCOPE("outer guard");
    SONDE_SCOPE("inner guard");
  }
  EXPECT_EQ(names_of(tap.take().spans), (Names{"inner guard", "outer guard"}));
}

TEST_F(Scope, GuardOfALeftBlockClosesOnExceptions) {
  RingTap tap;
  try {
    SONDE_SCOPE("throws");
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(names_of(tap.take().spans), (Names{"throws"}));
}

TEST_F(Scope, ClosedGateRecordsNothing) {
  RingTap tap;
  close_gate();
  EXPECT_EQ(this_thread(), nullptr);
  {
    SONDE_SCOPE("never");
  }
  EXPECT_FALSE(testing::open("never"));
  open_gate();
  {
    SONDE_SCOPE("ever");
  }
  EXPECT_EQ(names_of(tap.take().spans), (Names{"ever"}));
}

TEST_F(Scope, GateThatClosesInsideAGuardIsSurvived) {
  RingTap tap;
  {
    SONDE_SCOPE("around");
    close_gate();
  }
  open_gate();
  {
    SONDE_SCOPE("after");
  }
  const model::Batch batch = tap.take();
  ASSERT_NE(find_span(batch.spans, "after"), nullptr);
  EXPECT_FALSE(find_span(batch.spans, "after")->parent_id);
}

TEST_F(Scope, HandleOfTheParentProcessIsRefusedInTheChild) {
  const ScopeHandle handle = testing::open("parent's");
  testing::in_child([&] {
    EXPECT_FALSE(is_open(handle));
    EXPECT_FALSE(testing::close(handle));
    RingTap tap;
    const ScopeHandle own = testing::open("child's");
    EXPECT_FALSE(testing::close(handle)) << "also when a scope of the child lies in the same slot";
    EXPECT_TRUE(testing::close(own));
    const model::Batch batch = tap.take();
    ASSERT_EQ(names_of(batch.spans), (Names{"child's"}));
    EXPECT_FALSE(batch.spans[0].parent_id);
    EXPECT_EQ(batch.spans[0].pid, getpid());
  });
  EXPECT_TRUE(is_open(handle));
  EXPECT_TRUE(testing::close(handle));
}

TEST_F(Scope, AttributesCanBeAddedToWhatIsOpen) {
  RingTap tap;
  const std::uint32_t fixed = intern(R"("mode":"train")");
  const ScopeHandle a = testing::open("a"), b = testing::open("b", {.attrs = R"("k":1)"}),
                    c = testing::open("c", {.static_attrs = fixed}),
                    d = testing::open("d", {.attrs = R"("e":"own")"});
  add_attrs(*a.stack, b.sequence, "e", R"("e":"x","m":2)");
  add_attrs(*a.stack, 0, "e", R"("e":"y")");
  testing::close(d);
  testing::close(c);
  testing::close(b);
  testing::close(a);
  testing::close(testing::open("later"));
  const model::Batch batch = tap.take();
  EXPECT_EQ(find_span(batch.spans, "a")->attrs, R"("e":"y")");
  EXPECT_EQ(find_span(batch.spans, "b")->attrs, R"("e":"x","m":2,"k":1)") << "the first stays";
  EXPECT_EQ(find_span(batch.spans, "c")->attrs, R"("mode":"train","e":"x","m":2)");
  EXPECT_EQ(find_span(batch.spans, "d")->attrs, R"("e":"own")");
  EXPECT_EQ(find_span(batch.spans, "later")->attrs, "");
}

}  // namespace
}  // namespace sonde::record
