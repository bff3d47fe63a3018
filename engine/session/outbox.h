// Batches on their way to the spool directory. A batch that cannot be written (disk full, directory
// unusable) waits and is tried again; the journal keeps its records meanwhile. Beyond a bound the
// oldest is given up and counted: a disk that stays full must not eat the host's memory. Batches
// with snapshots are given up first: they are larger than spans and marks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "engine/base/deadline.h"
#include "engine/base/id.h"
#include "engine/session/contents.h"
#include "engine/session/left_behind.h"
#include "engine/session/moved.h"
#include "engine/spool/directory.h"

namespace sonde::session {

// Used by the draining thread (drain_loop.h); any thread may read the counters.
class Outbox {
 public:
  static constexpr std::size_t kMaxWaitingBytes = 64u << 20;

  explicit Outbox(spool::Directory& directory) : directory_(directory) {}

  // Writes the batch and commits `moved`, or keeps both if earlier batches still wait: those are
  // tried until the deadline of retry_until(). The journal has no copy of the snapshots in it.
  void send(std::int64_t created_ns, const base::Id& batch_id, std::string_view json,
            const Moved& moved, const Contents& contents = {});
  void retry_until(std::uint64_t deadline_ns) noexcept { send_deadline_ns_ = deadline_ns; }
  // Tries what waits, oldest first, at least one, and stops at the deadline (base/deadline.h).
  // Without a deadline it stops for a signal that ends the process. True when nothing is left.
  bool retry(std::uint64_t deadline_ns);
  // The rings moved on without anything to write (threads came and went).
  void skip(const Moved& moved);
  // The journal started over: the batches that wait have no place in it any more.
  void forget_positions();
  // Gives up the waiting batches that hold snapshots; returns how many snapshot records they had.
  std::uint64_t drop_snapshots();
  // Counts a batch that send() could not take.
  void lose(const Contents& contents) noexcept;
  void lose_snapshots(std::size_t snapshots) noexcept {
    snapshots_lost_.fetch_add(snapshots, std::memory_order_relaxed);
  }
  // Drops what waits: the session is over, and the journal that it leaves behind has those records.
  void abandon();

  std::uint64_t failures() const noexcept { return failures_.load(std::memory_order_relaxed); }
  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  std::uint64_t snapshots_written() const noexcept {
    return snapshots_written_.load(std::memory_order_relaxed);
  }
  std::uint64_t snapshots_lost() const noexcept {
    return snapshots_lost_.load(std::memory_order_relaxed);
  }
  std::uint64_t waiting() const noexcept { return waiting_count_.load(std::memory_order_relaxed); }
  // For the draining thread.
  LeftBehind left_behind() const;

 private:
  struct Waiting {
    std::int64_t created_ns;
    base::Id batch_id;
    std::string json;
    Moved moved;
    Contents contents;
  };
  bool write(std::int64_t created_ns, const base::Id& batch_id, std::string_view json,
             const Moved& moved);
  void give_up_one();
  void give_up(std::deque<Waiting>::iterator batch);

  spool::Directory& directory_;
  std::deque<Waiting> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::uint64_t send_deadline_ns_ = base::kNoDeadline;
  Contents given_up_;
  std::string trouble_;  // why the last write failed
  std::atomic<std::uint64_t> failures_{0}, lost_{0}, waiting_count_{0}, snapshots_written_{0},
      snapshots_lost_{0};
};

}  // namespace sonde::session
