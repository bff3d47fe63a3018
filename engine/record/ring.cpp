#include "engine/record/ring.h"

#include "engine/record/journal.h"
#include "engine/record/layout.h"

namespace sonde::record {

void release_ring(Lane& lane, RingTail& cursor) noexcept {
  if (lane.block == 0 || lane.block != cursor.block || lane.head.load() != cursor.position) return;
  Journal::instance().free_block(lane.block);
  lane.block = 0;
  lane.block_used = kSlotsPerBlock;
  lane.first_block.store(0);
  cursor.block = 0;
  lane.tail = lane.pending_tail = cursor;
}

}  // namespace sonde::record
