// Forked children, because what the engine promises is about processes: they crash, they are
// killed, they fork. A child starts with an empty journal, whatever the test binary did before.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <stdexcept>

#include <gtest/gtest.h>

namespace sonde::testing {

// Whether a child whose parent had threads can have some too. The thread sanitizer refuses, and the
// address sanitizer's allocator stays locked in a child that was forked at the wrong moment.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kChildHasThreads = false;
#else
inline constexpr bool kChildHasThreads = true;
#endif

// A child and a pipe on which it says how far it is.
class Child {
 public:
  // `body` gets a function that sends one byte to the parent. The exit status is 0 if no
  // expectation failed.
  using Say = std::function<void()>;
  explicit Child(const std::function<void(const Say&)>& body) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("no child");
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is killed leaves no child behind
      ::close(ends[0]);
      const int out = ends[1];
      body([out] { (void)!::write(out, ".", 1); });
      std::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    ::close(ends[1]);
    in_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
    ::close(in_);
  }

  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }

  // True when the child has said the next thing; false when it ended first, or after a minute.
  bool heard() const {
    pollfd ready{in_, POLLIN, 0};
    if (::poll(&ready, 1, 60'000) != 1) return false;
    char byte;
    return ::read(in_, &byte, 1) == 1;
  }

  // The status as waitpid gives it.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }
  int kill_and_wait(int number = SIGKILL) {
    signal(number);
    return wait();
  }

 private:
  pid_t pid_ = 0;
  int in_ = -1;
};

// Runs `body` in a child to its end and passes its failures on.
inline void in_child(const std::function<void()>& body) {
  Child child([&](const Child::Say&) { body(); });
  const int status = child.wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "the child " << (WIFSIGNALED(status) ? "died of signal " : "ended with status ")
      << (WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

// For the rest of a child's life.
[[noreturn]] inline void sleep_for_ever() {
  for (;;) ::pause();
}

}  // namespace sonde::testing
