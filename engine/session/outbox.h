// Batches on their way to the spool. One that cannot be written (disk full, directory unusable)
// waits and is tried again; the journal keeps its records meanwhile. Beyond a bound the oldest is
// given up and counted: a disk that stays full must not eat the host's memory. Snapshots go before
// spans and marks, which are smaller and of which the journal would have no other copy then.
#pragma once

#include <atomic>
#include <deque>
#include <string>

#include "engine/base/id.h"
#include "engine/session/drainer.h"
#include "engine/spool/directory.h"

namespace sonde::session {

// Used by the drain thread; counters by any.
class Outbox {
 public:
  static constexpr std::size_t kMaxWaitingBytes = 64u << 20;

  explicit Outbox(spool::Directory& directory) : directory_(directory) {}

  // Writes the batch, or keeps it if earlier ones still wait.
  // `snapshots`: how many it holds. The journal has no copy of those.
  void send(std::int64_t created_ns, const base::Id& batch_id, std::string_view json, Moved moved,
            std::size_t snapshots = 0);
  // Tries what waits, oldest first. True when nothing is left.
  bool retry();
  // The rings moved on without anything to write (threads came and went).
  void skip(Moved moved);
  // The journal started over: what waits has no place in it any more.
  void forget_positions();
  // Gives up the waiting batches that hold snapshots; how many records that were.
  std::uint64_t drop_snapshots();
  // Lets go of what waits: the session is over, and the journal that it leaves behind has the
  // records.
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

 private:
  struct Waiting {
    std::int64_t created_ns;
    base::Id batch_id;
    std::string json;
    Moved moved;
    std::size_t snapshots;
  };
  bool write(std::int64_t created_ns, const base::Id& batch_id, std::string_view json,
             const Moved& moved);
  void give_up_one();
  void give_up(std::deque<Waiting>::iterator batch);

  spool::Directory& directory_;
  std::deque<Waiting> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::atomic<std::uint64_t> failures_{0}, lost_{0}, waiting_count_{0}, snapshots_written_{0},
      snapshots_lost_{0};
};

}  // namespace sonde::session
