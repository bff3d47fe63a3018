// The blocks of the journal: which are free, how many may be used, when to ask for more.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/base/event.h"

namespace sonde::record {

inline constexpr std::uint32_t kMaxBlocks =
    2048;  // 64 MiB, a million records: the memory cap of recording
inline constexpr std::uint32_t kIdleBlocks = 512;   // 16 MiB: the cap while there is no session
inline constexpr std::uint32_t kFirstBlocks = 256;  // 8 MiB: what a new journal file starts with
inline constexpr std::uint32_t kLowBlocks = 128;    // fewer free ones wake the drain thread
// It is also woken when no more blocks than this are left before the end of the file. That is three
// quarters of a new file, because the drain thread may have to wait for its turn.
inline constexpr std::uint32_t kEarlyBlocks = kFirstBlocks / 4 * 3;

// Taking and freeing needs no lock: the free blocks are a stack with a tag against reuse. When it
// is empty, the blocks that were never used are taken in order.
class BlockPool {
 public:
  // -- any thread --

  std::uint32_t take() noexcept;  // 0: none left
  std::uint32_t usable() const noexcept { return usable_.load(); }
  // Blocks from this one on were never used.
  std::uint32_t fresh() const noexcept { return fresh_.load(); }
  std::int32_t available() const noexcept { return available_.load(std::memory_order_relaxed); }
  // Raised when blocks run low, and by everything else that the drain thread should look at.
  base::Event& wake() noexcept { return wake_; }

  // -- drain thread --

  void free(std::uint32_t number) noexcept;
  // While nothing is recorded: gives the memory of blocks that only a burst needed back to the
  // system.
  void trim();

  // -- lifecycle: one thread at a time, with the gate closed --

  // Every block is free again and as if never used.
  void reset(std::uint32_t usable) noexcept;
  // Forgets the free blocks after the last used one: the journal shrinks to what it holds.
  void compact() noexcept;
  // A session may use all blocks. Without one, recording keeps the blocks that are in use (the
  // stacks of a burst of tasks) and kIdleBlocks beside them.
  void allow_all() noexcept;
  void allow_idle_only() noexcept;

  // -- where the file ends: the lifecycle and the drain thread's Journal::grow --

  // Blocks from `number` on are memory that no file backs; kMaxBlocks: the file has room for all.
  void set_file_end(std::uint32_t number) noexcept { file_end_.store(number); }
  std::uint32_t file_end() const noexcept { return file_end_.load(); }
  bool nears_file_end() const noexcept {
    return file_end() != kMaxBlocks && fresh() + kLowBlocks >= file_end();
  }
  // Withholds the blocks from `first` on while their memory is exchanged. False: one of them is in
  // use already. `restore` makes them usable again.
  bool withhold(std::uint32_t first) noexcept;
  void restore() noexcept { usable_.store(kMaxBlocks); }

 private:
  void push(std::uint32_t number) noexcept;
  std::uint32_t pop() noexcept;
  std::uint32_t take_fresh() noexcept;

  std::atomic<std::uint64_t> free_{0};   // tag in the upper half, block in the lower
  std::atomic<std::uint32_t> fresh_{1};  // 0 is "none"
  std::atomic<std::uint32_t> file_end_{kMaxBlocks};
  std::atomic<std::uint32_t> usable_{0};
  std::atomic<std::int32_t> available_{0};
  std::atomic<std::uint32_t> next_free_[kMaxBlocks] = {};
  base::Event wake_;
  std::uint32_t untrimmed_ = 0;  // freed since the last trim: blocks that only a burst needed
};

}  // namespace sonde::record
