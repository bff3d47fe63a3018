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

// State that only code off the hot path uses.
struct State {
  std::mutex mutex;  // guards the rest, and stores to the gate
  // The gate is open while recording is wanted and no thread holds the gate closed.
  bool wanted = false;
  std::uint32_t holders = 0;
  // Two for each session that has ended, at most: they are never forgotten, for an object of the
  // program may ask at any time.
  std::vector<std::pair<Generation, Provenance>> ended;  // up to that generation, in order

  void settle_gate() const noexcept {
    const Generation now = detail::g_generation.load();
    detail::g_gate.store(wanted && holders == 0 ? now : 0, std::memory_order_seq_cst);
  }
};

State& state() noexcept {
  static auto* instance = new State;  // never destroyed: threads outlive static destructors
  return *instance;
}

}  // namespace

void begin_generation() noexcept {
  const std::lock_guard lock(state().mutex);
  detail::g_gate.store(0);
  detail::g_generation.fetch_add(1);
  state().settle_gate();
}

namespace detail {

void begin_void_generation() noexcept {
  g_valid_since.store(generation() + 1, std::memory_order_release);
  begin_generation();
}

void want_gate_open(bool wanted) noexcept {
  const std::lock_guard lock(state().mutex);
  state().wanted = wanted;
  state().settle_gate();
}

void count_gate_holder(bool comes) noexcept {
  const std::lock_guard lock(state().mutex);
  state().holders += comes ? 1 : ~0u;
  state().settle_gate();
}

void forget_gate_holders() noexcept {
  const std::lock_guard lock(state().mutex);
  state().holders = 0;
  state().settle_gate();
}

void keep_provenance(const Provenance& ended) noexcept {
  const std::lock_guard lock(state().mutex);
  try {
    state().ended.emplace_back(generation(), ended);
  } catch (const std::bad_alloc&) {
    // No memory: span objects of this session will show wrong ids and times, computed with the next
    // session's key and clock.
  }
}

void lock_generations() noexcept { state().mutex.lock(); }
void unlock_generations() noexcept { state().mutex.unlock(); }

}  // namespace detail

Provenance present_provenance() noexcept {
  const Header& head = journal_header();
  return {head.key, head.anchor, static_cast<std::int32_t>(head.pid), head.rank};
}

Provenance provenance(Generation made_in) noexcept {
  {
    const std::lock_guard lock(state().mutex);
    for (const auto& [until, ended] : state().ended) {
      if (made_in <= until) return ended;
    }
  }
  return present_provenance();
}

bool is_past(Generation made_in) noexcept {
  const std::lock_guard lock(state().mutex);
  return !state().ended.empty() && made_in <= state().ended.back().first;
}

}  // namespace sonde::record
