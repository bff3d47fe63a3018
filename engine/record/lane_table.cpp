#include "engine/record/lane_table.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "engine/record/addresses.h"
#include "engine/record/block_pool.h"
#include "engine/record/layout.h"
#include "engine/record/root.h"

namespace sonde::record {

Lane& LaneTable::at(std::uint32_t number) noexcept {
  std::byte* start = bytes_of_block(block_of(number));
  return *reinterpret_cast<Lane*>(start + kSlotBytes + (number % 4) * kLaneBytes);
}

// Makes one more lane, number count(). False: there is no room for it.
bool LaneTable::add(BlockPool& blocks) noexcept {
  const std::uint32_t number = count_.load(std::memory_order_relaxed);
  if (number == kMaxLanes) return false;
  if (number % 4 == 0) {
    // Stacks may take half of the blocks: a burst of tasks must leave room for what it records.
    if (number / 4 >= blocks.usable() / 2) return false;
    const std::uint32_t fresh = blocks.take();
    if (fresh == 0) return false;
    std::memset(bytes_of_block(fresh), 0, kBlockBytes);
    blocks_[number / 4] = fresh;
    block_at(fresh).type.store(BlockType::kLanes, std::memory_order_release);
  }
  Lane& made = at(number);
  made.number = number;
  made.next_sequence = (std::uint64_t{number} << kSequenceBits) + first_sequence_;
  made.block_used = kSlotsPerBlock;
  count_.store(number + 1, std::memory_order_release);
  return true;
}

Lane* LaneTable::take(LaneState state, std::uint64_t inherited_parent, BlockPool& blocks) noexcept {
  const std::lock_guard lock(mutex_);
  const std::uint32_t next = count_.load(std::memory_order_relaxed);
  if (free_count_ == 0 && !add(blocks)) return nullptr;
  Lane& taken = at(free_count_ > 0 ? free_[--free_count_] : next);
  taken.thread_id = static_cast<std::uint64_t>(::pthread_self());
  taken.os_thread_id = static_cast<std::uint64_t>(::syscall(SYS_gettid));
  taken.inherited_parent = inherited_parent;
  taken.inherited_session = root_sequence();
  ++taken.tenancy;
  taken.state.store(state, std::memory_order_release);
  return &taken;
}

void LaneTable::give(Lane& lane) noexcept {
  lane.depth.store(0, std::memory_order_release);
  lane.arena_used = 0;
  lane.inherited_parent = 0;
  const std::lock_guard lock(mutex_);
  lane.state.store(LaneState::kFree, std::memory_order_release);
  free_[free_count_++] = lane.number;
}

void LaneTable::reset() noexcept {
  count_.store(0);
  free_count_ = 0;
}

}  // namespace sonde::record
