// The lanes of the journal: four to a block, taken by a thread or a task, given back at its end.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "engine/record/block_pool.h"
#include "engine/record/layout.h"

namespace sonde::record {

class LaneTable {
 public:
  // -- any thread, off the hot path --

  // A lane for the calling thread, or for a task that it runs. nullptr: no lane and no block left.
  Lane* take(LaneState state, std::uint64_t inherited_parent, BlockPool& blocks) noexcept;
  void give(Lane& lane) noexcept;
  std::uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  // `number` is less than count().
  Lane& at(std::uint32_t number) noexcept;
  // Which block holds this lane.
  std::uint32_t block_of(std::uint32_t number) const noexcept { return blocks_[number / 4]; }

  // -- lifecycle --

  // Forgets all lanes: their blocks are gone.
  void reset() noexcept;
  // New lanes start counting above any number that an earlier lane can have reached, so that no id
  // repeats under one key.
  void skip_sequences() noexcept { first_sequence_ += std::uint64_t{1} << 34; }
  // Held around a fork, and while all lanes vanish.
  std::mutex& mutex() noexcept { return mutex_; }

 private:
  bool add(BlockPool& blocks) noexcept;

  std::mutex mutex_;
  std::atomic<std::uint32_t> count_{0};
  std::uint32_t blocks_[kMaxLanes / 4] = {};
  std::uint32_t free_[kMaxLanes] = {};  // lanes that were given back
  std::uint32_t free_count_ = 0;
  std::uint64_t first_sequence_ = 1;  // of a new lane
};

}  // namespace sonde::record
