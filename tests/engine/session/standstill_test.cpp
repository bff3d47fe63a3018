// Two threads may keep recording at a standstill at the same time.
#include "engine/session/standstill.h"

#include <atomic>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "engine/base/clock.h"
#include "engine/record/lane.h"
#include "tests/engine/support/child.h"
#include "tests/engine/support/ring_tap.h"

namespace sonde::session {
namespace {

using testing::in_child;

TEST(Standstill, TheLastOneThatEndsOpensTheGate) {
  in_child([] {
    record::open_gate();
    std::optional<Standstill> first, second;
    first.emplace();
    second.emplace();
    first.reset();
    EXPECT_FALSE(record::gate_open()) << "the second is still at work";
    second.reset();
    EXPECT_TRUE(record::gate_open());
  });
}

TEST(Standstill, AGateThatIsClosedForGoodMeanwhileStaysClosed) {
  in_child([] {
    record::open_gate();
    {
      const Standstill first;
      record::close_gate();
    }
    EXPECT_FALSE(record::gate_open());
  });
}

// Another thread may have closed the gate just now, so threads may still be past it.
TEST(Standstill, TheSecondWaitsForThreadsThatArePastTheGate) {
  in_child([] {
    record::open_gate();
    std::atomic<bool> recorded{false}, done{false};
    std::thread other([&] {
      testing::close(testing::open("x"));
      recorded.store(true);
      while (!done.load()) std::this_thread::yield();
    });
    while (!recorded.load()) std::this_thread::yield();
    const Standstill first;
    const std::uint64_t start = base::monotonic_ns();
    const Standstill second;
    EXPECT_GE(base::monotonic_ns() - start, 200'000u);
    done.store(true);
    other.join();
  });
}

TEST(Standstill, AThreadThatHadOneDoesNotKeepTheGateOfAForkedChildClosed) {
  in_child([] {
    record::open_gate();
    std::atomic<bool> held{false}, done{false};
    std::thread other([&] {
      const Standstill standstill;
      held.store(true);
      while (!done.load()) std::this_thread::yield();
    });
    while (!held.load()) std::this_thread::yield();
    in_child([] { EXPECT_TRUE(record::gate_open()); });
    EXPECT_FALSE(record::gate_open());
    done.store(true);
    other.join();
    EXPECT_TRUE(record::gate_open());
  });
}

}  // namespace
}  // namespace sonde::session
