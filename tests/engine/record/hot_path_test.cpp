// What the hot operations must not do: allocate, or call into the kernel.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <new>

#include <gtest/gtest.h>

#include "tests/engine/support/child.h"
#include "tests/engine/support/ring_tap.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SONDE_SANITIZED 1
#else
#define SONDE_SANITIZED 0
#endif

namespace {
thread_local std::size_t t_allocations = 0;
}

#if !SONDE_SANITIZED  // which bring their own
// Not inlined: the compiler would see free() of what it knows to come from new, and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++t_allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace sonde::record {
namespace {

// Fits into one block of the ring: taking the next one is not the hot path.
void record_some(ThreadState& thread, std::uint32_t name) {
  for (int i = 0; i < 60; ++i) {
    const ScopeHandle outer = open_scope(thread, *thread.lane, {.name = name});
    const ScopeHandle inner =
        open_scope(thread, *thread.lane, {.name = name, .index = i, .flags = kHasIndex});
    write_mark(thread, *thread.lane, {.name = name, .real = 0.5});
    write_float(thread, *thread.lane, name, 0.5);
    close_scope(thread, inner, {}, base::monotonic_ns());
    close_scope(thread, outer, {}, base::monotonic_ns());
    const ScopeGuard guard(name);
  }
}

TEST(HotPath, AllocatesNothing) {
  if (SONDE_SANITIZED) GTEST_SKIP() << "a sanitizer allocates in its own way";
  open_gate();
  ThreadState* thread = this_thread();
  const std::uint32_t name = intern("hot");
  const std::size_t before = t_allocations;
  record_some(*thread, name);
  EXPECT_EQ(t_allocations, before);
}

// From here on the kernel kills the process at the first system call but exit.
bool allow_nothing() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const sock_fprog program{std::size(rules), rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int run_strictly(void (*body)()) {
  testing::Child child([&](const testing::Child::Say&) {
    open_gate();
    this_thread();
    intern("hot");
    if (!allow_nothing()) ::_exit(77);
    body();
    ::syscall(SYS_exit, 0);
  });
  return child.wait();
}

TEST(HotPath, MakesNoSystemCall) {
  if (SONDE_SANITIZED) GTEST_SKIP() << "a sanitizer makes calls of its own";
  const int clock = run_strictly([] { base::monotonic_ns(); });
  if (!WIFEXITED(clock) || WEXITSTATUS(clock) != 0)
    GTEST_SKIP() << "no seccomp here, or a clock that needs the kernel";
  const int status = run_strictly([] { record_some(*this_thread(), 1); });
  EXPECT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  const int proof = run_strictly([] { ::getppid(); });
  EXPECT_TRUE(WIFSIGNALED(proof) && WTERMSIG(proof) == SIGSYS) << "a call would have been noticed";
}

}  // namespace
}  // namespace sonde::record
