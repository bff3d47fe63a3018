// The spool directory: the durable sink. It commits a batch in the journal once the batch's file is
// written, so a killed process has each record in the spool or in the journal, never in both.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/id.h"
#include "engine/session/counters.h"
#include "engine/session/left_behind.h"
#include "engine/session/moved.h"
#include "engine/session/outbox.h"
#include "engine/session/outgoing_batch.h"
#include "engine/session/sink.h"
#include "engine/spool/directory.h"

namespace sonde::session {

class SpoolSink : public Sink {
 public:
  SpoolSink(const std::string& output_dir, std::uint64_t max_bytes)
      : directory_(output_dir, max_bytes), outbox_(directory_) {}

  std::string_view name() const noexcept override { return "spool"; }
  Needs needs() const noexcept override { return {.snapshots = true}; }
  // May be called again with a batch for which it has thrown: nothing of that batch is committed.
  void accept(const std::shared_ptr<const OutgoingBatch>& batch) override;
  // Tries again what could not be written. At the end of the session it gives up waiting snapshots,
  // because the journal has no copy of them.
  bool flush(std::uint64_t deadline_ns, bool last) override;
  // Sets the deadline of accept() for trying again what could not be written.
  void retry_until(std::uint64_t deadline_ns) noexcept { outbox_.retry_until(deadline_ns); }
  // accept() has thrown for this batch and is not called with it again. Counts it, and flush() is
  // false from now on.
  void lose(const OutgoingBatch& batch) noexcept;
  // The session ends, and accept() has thrown for this batch: the journal keeps its spans and
  // marks, but has no copy of its snapshots.
  void lose_snapshots(const OutgoingBatch& batch) noexcept {
    outbox_.lose_snapshots(batch.records.snapshots.size());
  }

  // The rings moved on without a record to write.
  void skip(const Moved& moved) { outbox_.skip(moved); }
  // The journal started over: positions in it are void.
  void forget_positions() { outbox_.forget_positions(); }
  // The session is over, and what could not be written stays in the journal.
  void abandon() { outbox_.abandon(); }
  // Learns what lies in the directory, a slice per call; true when there is nothing left to do.
  bool tidy_some() { return directory_.scan_some(); }

  // Any thread. Asks for the path of the file with this span. found_in() gives it once the file is
  // written.
  void find(const base::Id& span);
  // "": it is not written yet. For the draining thread (drain_loop.h), or while no other thread
  // records.
  const std::string& found_in() const noexcept { return found_in_; }

  // Any thread.
  std::uint64_t waiting() const noexcept { return outbox_.waiting(); }
  // For the draining thread.
  LeftBehind left_behind() const { return outbox_.left_behind(); }
  void count(Counters& all) const override;

 private:
  spool::Directory directory_;
  Outbox outbox_;
  base::Id wanted_;
  std::atomic<bool> wants_{false};  // wanted_ is set
  std::string found_in_;
  bool lost_some_ = false;
};

}  // namespace sonde::session
