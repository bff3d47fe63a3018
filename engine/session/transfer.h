// Moves what threads recorded, and the records of captures, into the sinks, batch by batch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/session/captures.h"
#include "engine/session/counters.h"
#include "engine/session/journal_keeper.h"
#include "engine/session/moved.h"
#include "engine/session/outgoing_batch.h"
#include "engine/session/shared.h"
#include "engine/session/sinks.h"

namespace sonde::session {

// Used by the draining thread (drain_loop.h), except where a method says otherwise.
class Transfer {
 public:
  // `on_demand`: a session in which nothing was recorded leaves no run behind.
  Transfer(Shared& shared, JournalKeeper& keeper, Captures& captures, Sinks& sinks, bool on_demand)
      : shared_(shared),
        keeper_(keeper),
        captures_(captures),
        sinks_(sinks),
        on_demand_(on_demand) {}

  // Moves what is recorded now. Spans that wait for the GPU are left where they are.
  void drain();
  // Calls drain() until no span waits for the GPU, or the time is over. `give_up`: spans that still
  // wait then are written without their GPU time.
  void await_gpu(std::uint64_t patience_ns, bool give_up);
  // Moves the captures that are complete. Waits that long for statistics and for files under way.
  void await_captures(std::uint64_t statistics_ns, std::uint64_t blobs_ns);
  // Moves all captures, whether or not they are complete.
  void give_up_captures();
  // Whether something was left in the rings for lack of memory.
  bool was_cut_short() const;
  // Begins again where pages of the journal were lost, and returns true. The drain lock is held.
  bool start_over_if_lost();
  // The session is over, and its journal file stays with the records that were not read. Empties
  // the rings; otherwise the next session would write these records too. The caller holds the drain
  // lock.
  void leave_unread();
  // Gives large buffers back to the system.
  void shrink() noexcept {
    if (batch_) batch_->shrink();
  }

  // Any thread. How many batches went through the sinks.
  std::uint64_t batches() const noexcept { return batches_.load(std::memory_order_relaxed); }
  void count(Counters& all) const;

 private:
  OutgoingBatch& fresh_batch();
  bool next_batch();
  void add_context(OutgoingBatch& batch) noexcept;
  bool is_only_the_session() const;
  void deliver_captures();
  void deliver();

  Shared& shared_;
  JournalKeeper& keeper_;
  Captures& captures_;
  Sinks& sinks_;
  bool on_demand_;
  std::shared_ptr<OutgoingBatch> batch_;  // null: a sink has kept the last one
  std::int64_t last_created_ns_ = 0;
  // Snapshots are counted here where no spool counts what it has written.
  std::atomic<std::uint64_t> batches_{0}, snapshots_{0};
};

}  // namespace sonde::session
