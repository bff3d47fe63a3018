// Closed spans whose place in the tree is not certain yet. Their records are in the ring already,
// so a killed process keeps them. The drain thread of the same process waits for them, up to ten
// seconds (layout_certainty.h has its side of this).
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/base/placement.h"
#include "engine/record/lane.h"
#include "engine/record/layout.h"  // IWYU pragma: export
#include "engine/record/scope.h"

namespace sonde::record {

// A closed span whose parent can still be changed, for the thread that closed it. Empty: there is
// no span that could be changed.
class Provisional {
 public:
  Provisional() = default;
  explicit Provisional(SpanRecord* in_ring) noexcept : record_(in_ring) {}

  explicit operator bool() const noexcept { return record_ != nullptr; }
  // The sequence of its parent, as far as is known.
  std::uint64_t parent() const noexcept { return record_->parent; }
  // Gives it another parent. False: the drain thread has read the record already.
  bool move(std::uint64_t parent) const noexcept;
  // Makes the place of this span certain.
  void settle() const noexcept {
    Certainty provisional = Certainty::kProvisional;
    std::atomic_ref(record_->certainty)
        .compare_exchange_strong(provisional, Certainty::kCertain, std::memory_order_release,
                                 std::memory_order_relaxed);
  }

 private:
  SpanRecord* record_ = nullptr;
};

// Hot. As close_scope, but the parent can still be changed. Empty: there was no room, scopes above
// it were open, or it was closed before.
SONDE_HOT Provisional close_provisionally(ThreadState& thread, const ScopeHandle& handle,
                                          std::uint64_t now) noexcept;

}  // namespace sonde::record
