// The ring of a lane as the drain thread of the same process sees it: how far it reaches, how far
// it has been moved to the spool, and giving its last block back. Reading the records themselves
// needs the layout and is not done here.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/record/layout.h"  // IWYU pragma: export

namespace sonde::record {

// Any thread. The position after the newest record that is complete.
inline std::uint64_t ring_end(const Lane& lane) noexcept {
  return lane.head.load(std::memory_order_acquire);
}

// The records before `tail` will be in the spool once the batch that the header announces is there.
inline void announce_tail(Lane& lane, const RingTail& tail) noexcept { lane.pending_tail = tail; }

// With the gate closed and Journal::backing() held: a ring that was read to its end gives its block
// back, and `cursor` and the tails go on with the block that comes next.
void release_ring(Lane& lane, RingTail& cursor) noexcept;

}  // namespace sonde::record
