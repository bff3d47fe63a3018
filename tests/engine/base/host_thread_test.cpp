#include "engine/base/host_thread.h"

#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "tests/engine/support/child.h"

namespace sonde::base {
namespace {

using testing::in_child;

std::uint64_t in(std::uint64_t seconds) { return monotonic_ns() + seconds * 1'000'000'000; }

TEST(HostThread, CallsAreMadeInTheirOrderOnAnotherThread) {
  in_child([] {
    std::string order;
    const std::thread::id here = std::this_thread::get_id();
    std::atomic<bool> elsewhere{true};
    for (int round = 0; round < 100; ++round) {  // the thread comes and goes
      order.clear();
      for (const char* each : {"a", "b", "c"}) {
        call_on_host_thread([&, each] {
          order += each;
          if (std::this_thread::get_id() == here) elsewhere.store(false);
        });
      }
      await_host_thread(in(60));
      EXPECT_EQ(order, "abc");
    }
    EXPECT_TRUE(elsewhere.load());
  });
}

TEST(HostThread, AwaitingItselfReturnsAtOnce) {
  in_child([] {
    std::atomic<bool> done{false};
    call_on_host_thread([&] {
      await_host_thread(in(60));
      done.store(true);
    });
    const std::uint64_t start = monotonic_ns();
    await_host_thread(in(60));
    EXPECT_TRUE(done.load());
    EXPECT_LT(monotonic_ns() - start, 30'000'000'000u);
  });
}

std::atomic<bool> g_free{false};
std::atomic<int> g_logged{0};

// An ordinary thread of the host hears its message itself; a thread of the profiler does not wait.
TEST(HostThread, AHandlerThatBlocksHoldsUpNoThreadOfTheProfiler) {
  in_child([] {
    set_log_handler([](LogLevel, std::string_view, std::string_view) {
      while (!g_free.load()) ::usleep(1000);
      g_logged.fetch_add(1);
    });
    std::thread ours;
    ASSERT_TRUE(start_thread(ours, "test", [] {
                  log_once(LogLevel::kWarning, "flush", "first", "first");
                  log_once(LogLevel::kWarning, "flush", "second", "second");
                }).ok());
    ours.join();
    EXPECT_EQ(g_logged.load(), 0);
    g_free.store(true);
    log_once(LogLevel::kWarning, "flush", "third", "third");
    EXPECT_GE(g_logged.load(), 1);
    await_host_thread(in(60));
    EXPECT_EQ(g_logged.load(), 3);
  });
}

TEST(HostThread, AForkedChildHasOneOfItsOwn) {
  if (!testing::kChildHasThreads) GTEST_SKIP() << "a sanitizer allows a child no threads";
  in_child([] {
    call_on_host_thread([] {
      while (!g_free.load()) ::usleep(1000);
    });
    in_child([] {
      reset_host_thread_after_fork();
      std::atomic<bool> called{false};
      call_on_host_thread([&] { called.store(true); });
      await_host_thread(in(60));
      EXPECT_TRUE(called.load());
    });
    g_free.store(true);
  });
}

}  // namespace
}  // namespace sonde::base
