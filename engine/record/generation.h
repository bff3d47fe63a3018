// Which session and which process a thing belongs to: one number for everything.
//
// The generation goes up whenever what is recorded begins to belong to something else: a session
// begins, a session ends, the process forks (in the child), the journal starts over because its
// memory was lost. Threads, handles, stacks of tasks and span objects note the generation that they
// were made in. Whether that is the present one says whether they are of this session. Whether it
// is void says whether the memory that they point to is still theirs: a new session leaves open
// scopes where they are, a fork and a fresh start do not.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/base/clock.h"
#include "engine/base/id.h"

namespace sonde::record {

using Generation = std::uint32_t;  // 0: none

// What makes ids and times of the records of a generation.
struct Provenance {
  base::Id key;  // ids are make_id(key, sequence)
  base::ClockAnchor anchor;
  std::int32_t pid = 0, rank = 0;
};

namespace detail {
// The gate. 0: recording is off. Otherwise the present generation.
extern std::atomic<Generation> g_gate;
extern std::atomic<Generation> g_generation;
extern std::atomic<Generation> g_valid_since;

// As begin_generation, but lanes and handles of all earlier generations are void.
void begin_void_generation() noexcept;

// From now on provenance() gives this answer for all generations up to this one, unless it already
// has one for them. Called when the session ends and when the process has forked, because the
// header of the journal will then say something else.
void keep_provenance(const Provenance& past) noexcept;

// Any thread. Whether the gate is to be open while no thread holds it closed.
void want_gate_open(bool wanted) noexcept;
// Any thread. One more thread, or one less, holds the gate closed.
void count_gate_holder(bool comes) noexcept;
// In a forked child: the threads that held it closed do not exist here.
void forget_gate_holders() noexcept;

// While a fork is under way, no thread may be at work on the gate or on the list of past
// generations.
void lock_generations() noexcept;
void unlock_generations() noexcept;
}  // namespace detail

// Any thread. The present generation, whether or not recording is on.
inline Generation generation() noexcept {
  return detail::g_generation.load(std::memory_order_relaxed);
}
// Begins a new generation: what is recorded from here on belongs to something else. Open scopes
// stay open, and the gate stays as it is. One thread at a time: a session calls this where it
// begins and where it ends.
void begin_generation() noexcept;

// Any thread. Lanes and handles that were made in this generation point to memory that is no longer
// theirs.
inline bool is_void(Generation made_in) noexcept {
  return made_in < detail::g_valid_since.load(std::memory_order_acquire);
}

// The provenance of what is recorded now.
Provenance present_provenance() noexcept;
// Any thread, off the hot path. What is recorded before a session begins is written by that
// session, with its clock; so the answer may change until the generation's session has ended.
Provenance provenance(Generation made_in) noexcept;
// Has the session that the records of this generation belong to ended, here or in the process that
// this one was forked from?
bool is_past(Generation made_in) noexcept;

}  // namespace sonde::record
