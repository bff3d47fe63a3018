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
  const std::atomic_ref certainty(record.certainty);
  if (!certainty.compare_exchange_strong(state, Certainty::kChanging, std::memory_order_acquire,
                                         std::memory_order_relaxed))
    return false;
  std::atomic_ref(record.parent).store(parent, std::memory_order_relaxed);
  certainty.store(Certainty::kProvisional, std::memory_order_release);
  return true;
}

bool make_certain(SpanRecord& record) noexcept {
  Certainty state = Certainty::kProvisional;
  return std::atomic_ref(record.certainty)
             .compare_exchange_strong(state, Certainty::kCertain, std::memory_order_acquire) ||
         state == Certainty::kCertain;
}

}  // namespace sonde::record
