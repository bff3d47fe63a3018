// Spans in the ring whose place in the tree is not certain yet, as the drain thread of the same
// process sees them. provisional.h is the side of the thread that wrote them.
#pragma once

#include <atomic>

#include "engine/record/layout.h"

namespace sonde::record {

// Is the place of this span certain? Once true, the record does not change any more.
inline bool is_certain(SpanRecord& record) noexcept {
  return std::atomic_ref(record.certainty).load(std::memory_order_acquire) == Certainty::kCertain;
}

// Makes the place of this span certain. False: its thread is changing it at this very moment.
inline bool make_certain(SpanRecord& record) noexcept {
  Certainty state = Certainty::kProvisional;
  return std::atomic_ref(record.certainty)
             .compare_exchange_strong(state, Certainty::kCertain, std::memory_order_acquire) ||
         state == Certainty::kCertain;
}

}  // namespace sonde::record
