#include "engine/record/provisional.h"

namespace sonde::record {

SpanRecord* close_provisionally(ThreadState& thread, const ScopeHandle& handle,
                                std::uint64_t now) noexcept {
  if (is_plain(thread, handle)) [[likely]]
    return close_plain(thread, handle, ClosedBy::kSelf, now, Certainty::kProvisional);
  close_scope(thread, handle, {}, now);
  return nullptr;
}

bool move_provisional(SpanRecord& record, std::uint64_t parent) noexcept {
  Certainty state = Certainty::kProvisional;
  if (!__atomic_compare_exchange_n(&record.certainty, &state, Certainty::kChanging, false,
                                   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
    return false;
  __atomic_store_n(&record.parent, parent, __ATOMIC_RELAXED);
  __atomic_store_n(&record.certainty, Certainty::kProvisional, __ATOMIC_RELEASE);
  return true;
}

}  // namespace sonde::record
