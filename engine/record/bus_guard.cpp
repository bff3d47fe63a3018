#include "engine/record/bus_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace sonde::record {

namespace {

constexpr std::uintptr_t kPage = 4096;

std::atomic<std::uintptr_t> g_from{0};
std::atomic<std::uintptr_t> g_to{0};
std::atomic<int> g_file{-1};
std::atomic<std::uint64_t> g_replaced{0};
std::atomic<std::uint64_t> g_lost{0};
std::atomic_flag g_busy;
struct sigaction g_previous;

// Pages replaced already: two threads may fault on the same one.
constexpr std::size_t kMaxPages = std::size_t{1} << 17;  // 512 MiB
std::uint64_t g_pages[kMaxPages / 64];

void pass_on(int number, siginfo_t* info, void* context) {
  if ((g_previous.sa_flags & SA_SIGINFO) != 0 && g_previous.sa_sigaction != nullptr) {
    g_previous.sa_sigaction(number, info, context);
  } else if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN) {
    g_previous.sa_handler(number);
  } else {
    // Returning would repeat the faulting instruction: let it, under the default action.
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(number, &standard, nullptr);
  }
}

// Puts memory where the page of the file was, with the page's contents if the file still has them.
bool replace_page(std::uintptr_t address) {
  const std::uintptr_t offset = (address - g_from.load()) & ~(kPage - 1);
  const std::size_t page = offset / kPage;
  std::uint64_t& word = g_pages[page / 64 % std::size(g_pages)];
  const std::uint64_t bit = std::uint64_t{1} << (page % 64);
  if ((word & bit) != 0) return true;
  void* fresh = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return false;
  const bool kept = ::pread(g_file.load(), fresh, kPage, static_cast<off_t>(offset)) ==
                    static_cast<ssize_t>(kPage);
  void* place = reinterpret_cast<void*>(g_from.load() + offset);
  if (::mremap(fresh, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED)
    return false;
  word |= bit;
  g_replaced.fetch_add(1);
  if (!kept) g_lost.fetch_add(1);
  return true;
}

void on_bus_error(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  bool replaced = false;
  if (address >= g_from.load() && address < g_to.load()) {
    // Held for a few system calls by another thread; this one cannot come here twice, the signal is
    // blocked.
    while (g_busy.test_and_set(std::memory_order_acquire)) {
    }
    replaced = replace_page(address);
    g_busy.clear(std::memory_order_release);
  }
  if (!replaced) return pass_on(number, info, context);
  errno = saved;
}

}  // namespace

void install_bus_guard(std::byte* base, std::size_t bytes, int file) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(base);
  std::memset(g_pages, 0, sizeof g_pages);
  g_file.store(file);
  g_from.store(from);
  if (g_to.exchange(from + bytes) != 0) return;
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGBUS, &action, &g_previous);
}

void remove_bus_guard() noexcept {
  if (g_to.exchange(0) == 0) return;
  struct sigaction current;
  // A handler that another library installed after ours stays.
  if (::sigaction(SIGBUS, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) != 0 &&
      current.sa_sigaction == on_bus_error) {
    ::sigaction(SIGBUS, &g_previous, nullptr);
  }
}

std::uint64_t bus_error_count() noexcept { return g_replaced.load(); }
std::uint64_t lost_page_count() noexcept { return g_lost.load(); }

}  // namespace sonde::record
