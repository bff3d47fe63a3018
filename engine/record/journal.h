// The memory all recording goes to: one reserved range of addresses per process, backed by
// anonymous memory or, while a session writes to disk, by the journal file. The addresses never
// change, so a lane pointer held by a thread stays good when the backing is exchanged under it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "engine/base/event.h"
#include "engine/base/file.h"
#include "engine/base/status.h"
#include "engine/record/layout.h"

namespace sonde::record {

inline constexpr std::uint32_t kMaxBlocks =
    2048;  // 64 MiB, a million records: the memory cap of recording
inline constexpr std::uint32_t kIdleBlocks = 512;   // 16 MiB: the cap while nobody drains
inline constexpr std::uint32_t kFirstBlocks = 256;  // 8 MiB: what a new journal file starts with
inline constexpr std::uint32_t kAtOnceBlocks = 4;   // touched before the session's first record
inline constexpr std::uint32_t kAheadBlocks = 128;  // touched soon after that, by the drain thread
inline constexpr std::uint32_t kLowBlocks = 128;    // fewer free ones wake the drain thread
inline constexpr std::uint32_t kMaxLanes = 4096;    // threads and tasks with scopes at one time
struct Identity {
  std::int32_t rank = 0, local_rank = 0, world_size = 1;
};

namespace detail {
extern std::byte* g_base;  // set once, before anything is recorded
// Lanes and handles made until now are void (lane.cpp): another process owns them.
void begin_generation() noexcept;
// In a forked child: threads that were on their way to a lane do not exist here.
void forget_attaching() noexcept;
}  // namespace detail

class Journal {
 public:
  static Journal& instance();

  Header& header() noexcept { return *reinterpret_cast<Header*>(detail::g_base); }
  char* names() noexcept { return reinterpret_cast<char*>(detail::g_base + kNamesOffset); }
  static BlockHeader& block(std::uint32_t number) noexcept {
    return *reinterpret_cast<BlockHeader*>(detail::g_base + kBlocksOffset +
                                           std::size_t{number} * kBlockBytes);
  }

  // -- lifecycle: one thread at a time, with the gate closed (see lane.h) --

  // Starts a session in memory only. Ids go on from what was recorded before it.
  void begin_session(const Identity& identity) noexcept;
  // Moves everything onto a new file at `path` and locks it. On failure the memory stays as it was.
  base::Status attach_file(const std::string& path);
  // Moves everything back to anonymous memory; removes the file if `remove`.
  void detach_file(bool remove) noexcept;
  void end_session() noexcept;
  // What start_over brings back: who this session is. Call once the session's root is in the
  // header.
  void remember_session() noexcept;
  // Pages of the file are gone and with them what they held: nothing in the journal can be believed
  // any more. Begins again in empty memory, the same session, new sequences; lanes and handles of
  // before are void.
  void start_over() noexcept;
  // Forgets free blocks behind the last used one: the journal is as small again as what it holds.
  void compact() noexcept;
  bool on_file() const noexcept { return static_cast<bool>(file_); }
  const std::string& path() const noexcept { return path_; }
  std::size_t file_bytes() const noexcept;
  bool file_is_gone() const noexcept;  // unlinked by somebody else: crash survival is lost

  // Called once by whoever is about to take the first lane, before anything is recorded; null: by
  // nobody. While it runs, other threads that want a lane call it too.
  void on_first_lane(void (*call)()) noexcept { on_first_lane_.store(call); }
  void announce_first_lane() noexcept {
    if (const auto call = on_first_lane_.load(std::memory_order_acquire)) call();
  }

  // -- drain thread --

  // Enlarges the file when its end comes near. Recording does not wait for it: behind the end are
  // blocks in memory, which a kill would lose. Returns an error once when the disk refuses.
  base::Status grow();
  void free_block(std::uint32_t number) noexcept;
  // The kernel writes dirty pages to the disk and write-protects them; the next store to one then
  // faults, and waits if the disk is busy. This takes those faults on the calling thread instead.
  void keep_warm() noexcept;
  // For the drain thread, at the beginning: the next blocks are there when a recorder comes to
  // them. A piece per call, so that nobody waits long for it; true when there is nothing left.
  bool warm_ahead() noexcept;
  // While nothing is recorded: gives the memory of blocks that only a burst needed back to the
  // system.
  void trim();
  base::Event& wake() noexcept { return wake_; }
  std::uint32_t lane_count() const noexcept { return lane_count_.load(std::memory_order_acquire); }
  Lane& lane(std::uint32_t number) noexcept;
  // Pages of the file that could not be written (disk full, file truncated) and were replaced by
  // memory, and those of them whose contents are gone.
  static std::uint64_t bus_errors() noexcept;
  static std::uint64_t lost_pages() noexcept;

  // -- any recording thread, off the hot path --

  std::uint32_t take_block() noexcept;  // 0: none left
  // Whether less than half of what may be held without a session is left.
  bool room_is_short() const noexcept {
    return available_.load(std::memory_order_relaxed) < static_cast<std::int32_t>(kIdleBlocks / 2);
  }
  // Held while the backing is exchanged, and by whoever writes although the gate is closed: a
  // thread that ends and gives its lane back. Taken before every other lock here.
  std::mutex& backing() noexcept { return backing_; }
  Lane* take_lane(LaneState state, std::uint64_t inherited_parent) noexcept;
  void give_lane(Lane& lane) noexcept;

 private:
  Journal();
  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  // In the child: forgets everything of the parent's.
  void after_fork_in_child() noexcept;
  void push_free(std::uint32_t number) noexcept;
  std::uint32_t pop_free() noexcept;
  std::uint32_t take_fresh() noexcept;
  void reset_pool(std::uint32_t usable) noexcept;
  base::Status extend_file(std::uint32_t first);
  void map_anonymous(std::size_t from) noexcept;
  void copy_used(std::byte* to) noexcept;

  std::atomic<std::uint64_t> free_{0};             // tag in the upper half, block in the lower
  std::atomic<std::uint32_t> fresh_{1};            // first block never used; 0 is "none"
  std::atomic<std::uint32_t> backed_{kMaxBlocks};  // where the file ends; behind it is memory
  std::atomic<std::uint32_t> usable_{0};           // blocks that may be used
  std::atomic<std::int32_t> available_{0};
  std::atomic<std::uint32_t> lane_count_{0};
  std::uint32_t lane_blocks_[kMaxLanes / 4] = {};
  std::atomic<std::uint32_t> next_free_[kMaxBlocks] = {};
  std::atomic<void (*)()> on_first_lane_{nullptr};
  struct Lanes;
  Lanes* lanes_;  // lock and list of free lanes
  std::mutex backing_;
  base::Event wake_;
  base::Fd file_;
  std::string path_;
  std::unique_ptr<std::byte[]> remembered_;  // the header as remember_session found it
  std::uint64_t first_sequence_ = 1;         // of a new lane
  std::uint32_t untrimmed_ = 0;              // freed blocks of the burst kind since the last trim
  std::uint32_t warmed_ = kMaxBlocks;        // how far warm_ahead has come
};

}  // namespace sonde::record
