#include "engine/base/event.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "engine/base/clock.h"

namespace sonde::base {
namespace {

constexpr std::uint64_t kLong = 20'000'000'000u;

TEST(Event, TimesOut) {
  Event event;
  const std::uint64_t before = monotonic_ns();
  EXPECT_FALSE(event.wait(event.now(), 5'000'000));
  EXPECT_GE(monotonic_ns() - before, 5'000'000u);
}

TEST(Event, ARaiseBeforeTheWaitIsNotLost) {
  Event event;
  const std::uint32_t seen = event.now();
  event.raise();
  EXPECT_TRUE(event.wait(seen, kLong));
}

TEST(Event, WakesASleeper) {
  Event event;
  const std::uint32_t seen = event.now();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    event.raise();
  });
  EXPECT_TRUE(event.wait(seen, kLong));
  other.join();
}

TEST(Event, WakesEverySleeper) {
  Event event;
  const std::uint32_t seen = event.now();
  std::atomic<int> woken{0};
  std::vector<std::thread> sleepers;
  sleepers.reserve(4);
  for (int i = 0; i < 4; ++i)
    sleepers.emplace_back([&] { woken += event.wait(seen, kLong) ? 1 : 0; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  event.raise();
  for (std::thread& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(woken, 4);
}

Event g_event;

TEST(Event, MayBeRaisedInASignalHandler) {
  struct sigaction action = {}, old = {};
  action.sa_handler = [](int) { g_event.raise(); };
  ASSERT_EQ(sigaction(SIGUSR1, &action, &old), 0);
  const std::uint32_t seen = g_event.now();
  const pthread_t self = pthread_self();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pthread_kill(self, SIGUSR1);
  });
  EXPECT_TRUE(g_event.wait(seen, kLong));
  other.join();
  sigaction(SIGUSR1, &old, nullptr);
}

}  // namespace
}  // namespace sonde::base
