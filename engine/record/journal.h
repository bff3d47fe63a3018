// The journal of this process: the memory that all recording goes to, its blocks and its lanes.
// This class keeps the three together, in the order in which a session, a fork and a lost file need
// them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "engine/base/clock.h"
#include "engine/base/event.h"
#include "engine/base/id.h"
#include "engine/base/status.h"
#include "engine/record/addresses.h"
#include "engine/record/backing.h"
#include "engine/record/block_pool.h"
#include "engine/record/generation.h"
#include "engine/record/lane_table.h"
#include "engine/record/layout.h"  // IWYU pragma: export

namespace sonde::record {

struct Identity {
  std::int32_t rank = 0, local_rank = 0, world_size = 1;
};

class Journal {
 public:
  static Journal& instance();

  // For engine/journal, which knows the layout, and for tests. Other code calls the functions
  // below.
  Header& header() noexcept { return journal_header(); }
  std::byte* memory() const noexcept { return detail::g_base; }

  // -- lifecycle: one thread at a time, with the gate closed (see lane.h) --

  // Starts a session in memory only, and a generation. Ids go on from what was recorded before it.
  void begin_session(const Identity& identity) noexcept;
  // Moves everything onto a new file at `path` and locks it. On failure the memory stays as it was.
  base::Status attach_file(const std::string& path);
  // Moves everything back to anonymous memory; removes the file if `remove`.
  void detach_file(bool remove) noexcept;
  // Called when the session's scopes are closed. What is recorded from here on belongs to no
  // session, so a new generation begins.
  void leave_session() noexcept;
  // Called when all records of the session are written or given up. What is recorded later gets
  // other ids.
  void end_session() noexcept;
  // Keeps the header for start_over, which brings it back. Call once the session's root is in it.
  void remember_session() noexcept;
  // Pages of the file are gone, so nothing in the journal can be trusted any more. Begins again in
  // empty memory with the same session and new sequences; all lanes and handles become void.
  void start_over() noexcept;
  void compact() noexcept { blocks_.compact(); }

  // `call` runs before the first lane is taken, on the thread that wants one, and on every other
  // thread that wants one meanwhile; nullptr: nothing runs.
  void on_first_lane(void (*call)()) noexcept { on_first_lane_.store(call); }
  void announce_first_lane() noexcept {
    if (const auto call = on_first_lane_.load(std::memory_order_acquire)) call();
  }

  // -- drain thread --

  // Enlarges the file when recording comes near its end, or would do so before the drain thread is
  // sure to call this again. Recording does not wait for it: beyond the
  // end are blocks in memory, which a kill would lose. Returns an error once when the disk refuses.
  base::Status grow();
  // The kernel writes dirty pages to the disk and write-protects them; the next store to one then
  // faults, and waits if the disk is busy. This takes those faults on the calling thread instead.
  void keep_warm() noexcept;
  // At the beginning of a session: touches the next blocks before a recording thread needs them. A
  // piece per call, so that no caller waits long for it; true when there is nothing left.
  bool warm_ahead() noexcept { return backing_.warm_ahead(); }
  void free_block(std::uint32_t number) noexcept { blocks_.free(number); }
  void trim() { blocks_.trim(); }
  // Notes that the process lives, which an autopsy relies on.
  void give_sign_of_life() noexcept;
  // Notes how many records were dropped so far.
  void note_lost_records(std::uint64_t records) noexcept { header().lost_records = records; }
  // A reader that finds the file knows that the session came to its end. `clean`: everything is in
  // the spool.
  void say_ended(bool clean) noexcept;

  // -- any thread --

  base::Event& wake() noexcept { return blocks_.wake(); }
  bool on_file() const noexcept { return backing_.on_file(); }
  const std::string& path() const noexcept { return backing_.path(); }
  std::size_t file_bytes() const noexcept { return backing_.file_bytes(); }
  bool file_is_gone() const noexcept { return backing_.file_is_gone(); }
  // Pages of the file that could not be written (disk full, file truncated) and were replaced by
  // memory, and those of them whose contents are gone.
  static std::uint64_t bus_errors() noexcept;
  static std::uint64_t lost_pages() noexcept;
  const base::Id& key() noexcept { return header().key; }
  const base::ClockAnchor& anchor() noexcept { return header().anchor; }

  std::uint32_t lane_count() const noexcept { return lanes_.count(); }
  Lane& lane(std::uint32_t number) noexcept { return lanes_.at(number); }
  Lane* take_lane(LaneState state, std::uint64_t inherited_parent) noexcept;
  void give_lane(Lane& lane) noexcept { lanes_.give(lane); }
  std::uint32_t take_block() noexcept { return blocks_.take(); }  // 0: none left
  // Whether less than half of what may be held without a session is left.
  bool room_is_short() const noexcept {
    return blocks_.available() < static_cast<std::int32_t>(kIdleBlocks / 2);
  }
  // See Backing::mutex.
  std::mutex& backing() noexcept { return backing_.mutex(); }

 private:
  Journal();
  void reset(std::uint32_t usable_blocks) noexcept;
  bool nears_file_end() noexcept;
  std::uint32_t ring_blocks() const noexcept;
  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  // In the child: forgets everything that belongs to the parent.
  void after_fork_in_child() noexcept;

  Backing backing_;
  BlockPool blocks_;
  LaneTable lanes_;
  std::atomic<void (*)()> on_first_lane_{nullptr};
  // The header as remember_session found it. No allocation: that function must not fail.
  alignas(Header) std::array<std::byte, sizeof(Header)> remembered_ = {};
  bool has_remembered_ = false;
  Provenance forked_;  // when the process last forked
  // When nears_file_end() last looked, and what ring_blocks() said.
  std::uint64_t looked_ns_ = 0;
  std::uint32_t ring_blocks_ = 0;
};

}  // namespace sonde::record
