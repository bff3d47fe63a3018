#include "engine/session/flush_requests.h"

#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>

namespace sonde::session {
namespace {

TEST(FlushRequests, AWakeUpForAnotherRequestDoesNotMakeTheWaitLonger) {
  FlushRequests requests;
  const std::uint64_t mine = requests.add();
  std::thread other([&] {
    ::usleep(400'000);
    requests.finish(mine - 1);
  });
  const std::uint64_t start = base::monotonic_ns();
  requests.await(mine, 500'000'000);
  EXPECT_LT(base::monotonic_ns() - start, 850'000'000u);
  EXPECT_TRUE(requests.pending());
  other.join();
}

}  // namespace
}  // namespace sonde::session
