#include "engine/record/provisional.h"

#include <atomic>
#include <cstdint>

#include "engine/record/lane.h"
#include "engine/record/layout.h"
#include "engine/record/scope.h"

namespace sonde::record {

Provisional close_provisionally(ThreadState& thread, const ScopeHandle& handle,
                                std::uint64_t now) noexcept {
  if (is_plain(thread, handle)) [[likely]] {
    return Provisional(close_plain(thread, handle, ClosedBy::kSelf, now, Certainty::kProvisional));
  }
  close_scope(thread, handle, {}, now);
  return {};
}

bool Provisional::move(std::uint64_t parent) const noexcept {
  Certainty state = Certainty::kProvisional;
  const std::atomic_ref certainty(record_->certainty);
  if (!certainty.compare_exchange_strong(state, Certainty::kChanging, std::memory_order_acquire,
                                         std::memory_order_relaxed))
    return false;
  std::atomic_ref(record_->parent).store(parent, std::memory_order_relaxed);
  certainty.store(Certainty::kProvisional, std::memory_order_release);
  return true;
}

}  // namespace sonde::record
