#include "engine/record/ring.h"

#include <atomic>

#include "engine/record/journal.h"
#include "engine/record/layout.h"

namespace sonde::record {

void release_ring(Lane& lane, RingTail& cursor) noexcept {
  // `head` first: with it, all that the thread stored before is visible here.
  if (lane.head.load(std::memory_order_acquire) != cursor.position) return;
  if (lane.block == 0 || lane.block != cursor.block) return;
  Journal::instance().free_block(lane.block);
  lane.block = 0;
  lane.block_used = kSlotsPerBlock;
  lane.first_block.store(0);
  cursor.block = 0;
  lane.tail = lane.pending_tail = cursor;
}

}  // namespace sonde::record
