// The session's own scope, the root of its tree. It lies in the header of the journal and not on a
// stack: it may outlive the thread that began the session, and any thread may end it.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/record/addresses.h"

namespace sonde::record {

// Interned before anything else: a name for the root where the table of names is full.
inline constexpr std::string_view kAnySession = "sonde.session";

// Any thread. 0: no session is open. A session may begin or end on another thread.
inline std::uint64_t root_sequence() noexcept {
  return __atomic_load_n(&journal_header().session.sequence, __ATOMIC_RELAXED);
}

struct OpenedRoot {
  std::uint64_t sequence = 0;
  std::uint32_t left_out = 0;  // members of `attrs` that found no room
};

// Opens it now, on behalf of the calling thread. `name` is interned; `attrs` are JSON members.
// Where they are longer than the header has room for (kSessionTextBytes), each one that does not
// fit behind those before it is left out. With the gate closed.
OpenedRoot open_root(std::uint32_t name, std::string_view attrs) noexcept;

// Any thread. Its further attributes, interned. One store: a process killed at this moment leaves
// the old ones or the new ones.
void set_root_attrs(std::uint32_t attrs) noexcept;

// Removes the session's root from the journal: no session is open any more, or it has recorded
// nothing and leaves no trace.
void forget_root() noexcept;

}  // namespace sonde::record
