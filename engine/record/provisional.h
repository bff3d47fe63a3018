// Closed spans whose place in the tree is not certain yet. Their records are in the ring, so a
// killed process keeps them; whoever drains its own process waits for them, but not for ever.
#pragma once

#include "engine/record/scope.h"

namespace sonde::record {

// As close_scope, but the parent may still be changed. nullptr: there is no such record (no room,
// scopes above it were open, it was closed before), and what there is stays as it is.
SpanRecord* close_provisionally(ThreadState& thread, const ScopeHandle& handle,
                                std::uint64_t now) noexcept;

// For the thread that wrote it. False: the drain thread would wait no longer, and has it.
bool move_provisional(SpanRecord& record, std::uint64_t parent) noexcept;

// Its place is certain now.
inline void settle_provisional(SpanRecord& record) noexcept {
  Certainty provisional = Certainty::kProvisional;
  __atomic_compare_exchange_n(&record.certainty, &provisional, Certainty::kCertain, false,
                              __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

}  // namespace sonde::record
