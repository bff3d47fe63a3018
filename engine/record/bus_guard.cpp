#include "engine/record/bus_guard.h"

#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>

namespace sonde::record {

namespace {

constexpr std::uintptr_t kPage = 4096;

std::atomic<std::uintptr_t> g_from{0};
std::atomic<std::uintptr_t> g_to{0};
std::atomic<std::uint64_t> g_count{0};
struct sigaction g_previous;

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

void on_bus_error(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (address < g_from.load() || address >= g_to.load()) return pass_on(number, info, context);
  void* page = reinterpret_cast<void*>(address & ~(kPage - 1));
  if (::mmap(page, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
    return pass_on(number, info, context);
  }
  g_count.fetch_add(1);
  errno = saved;
}

}  // namespace

void install_bus_guard(std::byte* base, std::size_t bytes) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(base);
  if (g_to.exchange(from + bytes) != 0) return;
  g_from.store(from);
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGBUS, &action, &g_previous);
}

void remove_bus_guard() noexcept {
  if (g_to.exchange(0) == 0) return;
  struct sigaction current;
  // Somebody who installed a handler after us keeps it.
  if (::sigaction(SIGBUS, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == on_bus_error) {
    ::sigaction(SIGBUS, &g_previous, nullptr);
  }
}

std::uint64_t bus_error_count() noexcept { return g_count.load(); }

}  // namespace sonde::record
