#include "engine/record/block_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/record/addresses.h"
#include "engine/record/layout.h"

namespace sonde::record {

std::uint32_t BlockPool::pop() noexcept {
  std::uint64_t top = free_.load(std::memory_order_acquire);
  while (const auto number = static_cast<std::uint32_t>(top)) {
    const std::uint64_t next =
        ((top >> 32) + 1) << 32 | next_free_[number].load(std::memory_order_relaxed);
    if (free_.compare_exchange_weak(top, next, std::memory_order_acq_rel)) return number;
  }
  return 0;
}

void BlockPool::push(std::uint32_t number) noexcept {
  std::uint64_t top = free_.load(std::memory_order_relaxed);
  std::uint64_t next;
  do {
    next_free_[number].store(static_cast<std::uint32_t>(top), std::memory_order_relaxed);
    next = ((top >> 32) + 1) << 32 | number;
  } while (!free_.compare_exchange_weak(top, next, std::memory_order_acq_rel));
}

std::uint32_t BlockPool::take_fresh() noexcept {
  std::uint32_t number = fresh_.load(std::memory_order_relaxed);
  while (number < usable_.load(std::memory_order_acquire)) {
    if (fresh_.compare_exchange_weak(number, number + 1)) return number;
  }
  return 0;
}

std::uint32_t BlockPool::take() noexcept {
  std::uint32_t number = pop();
  bool low = false;
  if (number == 0) {
    number = take_fresh();
    low = number + kEarlyBlocks >= file_end_.load(std::memory_order_relaxed);
  }
  if (number == 0 || available_.fetch_sub(1) <= static_cast<std::int32_t>(kLowBlocks) || low)
    wake_.raise();
  return number;
}

void BlockPool::free(std::uint32_t number) noexcept {
  // A cache line that this core has only read costs the next writer on another core twice what a
  // line that it has written does (measured: 100 ns a record against 50). So write to each once.
  std::byte* slot = bytes_of_block(number);
  for (std::uint32_t i = 0; i < kSlotsPerBlock; ++i) {
    slot += kSlotBytes;
    *reinterpret_cast<volatile RecordKind*>(slot) = RecordKind::kNone;
  }
  block_at(number).type.store(BlockType::kFree, std::memory_order_relaxed);
  if (number >= kFirstBlocks) ++untrimmed_;
  push(number);
  available_.fetch_add(1);
}

void BlockPool::trim() {
  if (untrimmed_ == 0) return;
  untrimmed_ = 0;
  // A few stay in the list meanwhile, for threads that record right now.
  std::vector<std::uint32_t> kept, taken;
  for (std::uint32_t i = 0, n; i < kLowBlocks && (n = pop()) != 0; ++i) kept.push_back(n);
  for (std::uint32_t n; (n = pop()) != 0;) taken.push_back(n);
  for (const std::uint32_t number : kept) push(number);
  std::sort(taken.begin(), taken.end(), std::greater<>());
  for (const std::uint32_t number : taken) {
    if (number >= kFirstBlocks) ::madvise(bytes_of_block(number), kBlockBytes, MADV_DONTNEED);
    push(number);
  }
}

void BlockPool::reset(std::uint32_t usable) noexcept {
  free_.store(0);
  fresh_.store(1);
  usable_.store(usable);
  file_end_.store(kMaxBlocks);
  available_.store(static_cast<std::int32_t>(usable) - 1);
}

void BlockPool::compact() noexcept {
  std::uint32_t last = fresh_.load() - 1;
  while (last > 0 && block_at(last).type.load() == BlockType::kFree) --last;
  std::uint32_t free_blocks = 0;
  free_.store(((free_.load() >> 32) + 1) << 32);
  for (std::uint32_t i = last; i > 0; --i) {
    if (block_at(i).type.load() != BlockType::kFree) continue;
    push(i);
    ++free_blocks;
  }
  fresh_.store(last + 1);
  available_.store(static_cast<std::int32_t>(usable_.load() - fresh_.load() + free_blocks));
}

void BlockPool::allow_all() noexcept {
  const std::uint32_t before = usable_.exchange(kMaxBlocks);
  available_.fetch_add(static_cast<std::int32_t>(kMaxBlocks - before));
}

void BlockPool::allow_idle_only() noexcept {
  const std::uint32_t before = usable_.exchange(std::min(kMaxBlocks, fresh_.load() + kIdleBlocks));
  available_.fetch_sub(static_cast<std::int32_t>(before - usable_.load()));
}

bool BlockPool::withhold(std::uint32_t first) noexcept {
  usable_.store(first);
  return fresh_.load() <= first;
}

}  // namespace sonde::record
