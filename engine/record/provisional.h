// Closed spans whose place in the tree is not certain yet. Their records are in the ring, so a
// killed process keeps them. The drain thread of the same process waits for them, but not for ever.
#pragma once

#include <atomic>

#include "engine/base/placement.h"
#include "engine/record/scope.h"

namespace sonde::record {

// As close_scope, but the parent may still be changed. nullptr: there is no such record (no room,
// scopes above it were open, it was closed before), and what there is stays as it is.
SONDE_HOT SpanRecord* close_provisionally(ThreadState& thread, const ScopeHandle& handle,
                                          std::uint64_t now) noexcept;

// For the thread that wrote it. False: the drain thread would wait no longer, and has it.
bool move_provisional(SpanRecord& record, std::uint64_t parent) noexcept;

// For the drain thread: is its place certain? Once true, nothing moves it.
inline bool is_certain(SpanRecord& record) noexcept {
  return std::atomic_ref(record.certainty).load(std::memory_order_acquire) == Certainty::kCertain;
}
// For the drain thread: its place is certain from now on. False: its own thread is changing it at
// this very moment.
bool make_certain(SpanRecord& record) noexcept;

// For the thread that wrote it: its place is certain now.
inline void settle_provisional(SpanRecord& record) noexcept {
  Certainty provisional = Certainty::kProvisional;
  std::atomic_ref(record.certainty)
      .compare_exchange_strong(provisional, Certainty::kCertain, std::memory_order_release,
                               std::memory_order_relaxed);
}

}  // namespace sonde::record
