// Whether the program itself has recorded, opened or closed anything since the last event of the
// hooks. What it records between two spans of ours keeps those from being moved.
#pragma once

#include <cstdint>

#include "engine/hook/moment.h"
#include "engine/record/lane.h"
#include "engine/record/stack.h"

namespace sonde::hook {

struct Others {
  // An event of the hooks ends: notes the present state.
  void note(Here here) noexcept {
    sequence = record::next_sequence(here.thread);
    scopes = record::scopes_opened(here.thread);
    depth = record::depth_of(here.stack);
  }
  bool recorded(const record::ThreadState& thread) const noexcept {
    return record::next_sequence(thread) != sequence;
  }
  bool opened(const record::ThreadState& thread) const noexcept {
    return record::scopes_opened(thread) != scopes;
  }
  // Was nothing else recorded between the leaves or after them?
  bool untouched(const record::ThreadState& thread) const noexcept {
    return !touched && !recorded(thread);
  }

  // The state when the last event of the hooks ended.
  std::uint64_t sequence = 0;  // the next sequence of the thread
  std::uint64_t scopes = 0;    // how many scopes it had opened
  std::uint32_t depth = 0;     // of the stack
  bool touched = false;        // something else was recorded between the leaves
};

}  // namespace sonde::hook
