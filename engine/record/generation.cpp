#include "engine/record/generation.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "engine/base/placement.h"
#include "engine/record/addresses.h"
#include "engine/record/layout.h"

namespace sonde::record {

namespace detail {

SONDE_HOT_DATA std::atomic<Generation> g_gate{0};
std::atomic<Generation> g_generation{1};
std::atomic<Generation> g_valid_since{1};

}  // namespace detail

namespace {

// Two for each session that has ended, at most: they are never forgotten, for an object of the
// program may ask at any time.
struct Past {
  std::mutex mutex;
  std::vector<std::pair<Generation, Provenance>> ended;  // up to that generation, in order
};

Past& past() noexcept {
  static auto* instance = new Past;  // never destroyed: threads outlive static destructors
  return *instance;
}

}  // namespace

void begin_generation() noexcept {
  const bool was_open = detail::g_gate.exchange(0) != 0;
  const Generation next = detail::g_generation.fetch_add(1) + 1;
  if (was_open) detail::g_gate.store(next, std::memory_order_release);
}

namespace detail {

void begin_void_generation() noexcept {
  g_valid_since.store(generation() + 1, std::memory_order_release);
  begin_generation();
}

void keep_provenance(const Provenance& ended) noexcept {
  const std::lock_guard lock(past().mutex);
  try {
    past().ended.emplace_back(generation(), ended);
  } catch (const std::bad_alloc&) {
    // Span objects of this session will tell the ids and times of the next one.
  }
}

void lock_provenance() noexcept { past().mutex.lock(); }
void unlock_provenance() noexcept { past().mutex.unlock(); }

}  // namespace detail

Provenance present_provenance() noexcept {
  const Header& head = journal_header();
  return {head.key, head.anchor, static_cast<std::int32_t>(head.pid), head.rank};
}

Provenance provenance(Generation made_in) noexcept {
  {
    const std::lock_guard lock(past().mutex);
    for (const auto& [until, ended] : past().ended) {
      if (made_in <= until) return ended;
    }
  }
  return present_provenance();
}

bool is_past(Generation made_in) noexcept {
  const std::lock_guard lock(past().mutex);
  return !past().ended.empty() && made_in <= past().ended.back().first;
}

}  // namespace sonde::record
