#include "engine/base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "tests/engine/support/child.h"
#include "tests/engine/support/refuse.h"

namespace sonde::base {
namespace {

sigset_t mask() {
  sigset_t now;
  sigemptyset(&now);
  pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return now;
}

bool same(const sigset_t& a, const sigset_t& b) {
  for (int number = 1; number < 65; ++number)
    if (sigismember(&a, number) != sigismember(&b, number)) return false;
  return true;
}

TEST(Thread, BlocksSignalsButNotItsOwnFaults) {
  const sigset_t before = mask();
  sigset_t inside;
  char name[16] = "";
  std::thread thread;
  ASSERT_TRUE(start_thread(thread, "sonde-test", [&] {
                inside = mask();
                pthread_getname_np(pthread_self(), name, sizeof name);
              }).ok());
  thread.join();
  for (const int number : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGALRM})
    EXPECT_EQ(sigismember(&inside, number), 1) << number;
  for (const int number : {SIGBUS, SIGSEGV, SIGFPE, SIGILL})
    EXPECT_EQ(sigismember(&inside, number), 0) << number;
  EXPECT_STREQ(name, "sonde-test");
  EXPECT_TRUE(same(mask(), before));
}

TEST(Thread, WhereNoneCanBeHadNothingHasChanged) {
  testing::in_child([] {
    if (!testing::refuse_threads()) GTEST_SKIP() << "cannot filter calls here";
    const sigset_t before = mask();
    std::thread thread;
    const Status status = start_thread(thread, "sonde-test", [] {});
    EXPECT_EQ(status.error(), EAGAIN);
    EXPECT_EQ(status.text(), std::string("cannot start a thread: ") + std::strerror(EAGAIN));
    EXPECT_FALSE(thread.joinable());
    EXPECT_EQ(start_detached_thread("sonde-test", [] {}).error(), EAGAIN);
    EXPECT_TRUE(same(mask(), before));
  });
}

}  // namespace
}  // namespace sonde::base
