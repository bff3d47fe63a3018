// Captures on their way from the threads that take them to the drain thread, which keeps each one
// until its statistics and its file are done and then writes its records.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/id.h"
#include "engine/base/json_writer.h"
#include "engine/model/trace.h"
#include "engine/session/first_non_finite.h"
#include "engine/snapshot/capture.h"

namespace sonde::session {

class Captures {
 public:
  // Records that may wait here, about 64 MB of statistics. Beyond, the newest capture is dropped.
  static constexpr std::size_t kMaxRecords = 256 * 1024;
  // Statistics that do not come within this time are written as null.
  static constexpr std::uint64_t kPatienceNs = 60'000'000'000;

  // Any thread. False: dropped and counted, because the session is over or too much waits.
  bool add(snapshot::Capture capture);
  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

  // The rest is for the draining thread (drain_loop.h).

  // Takes over what was added and looks at what is under way; true when something can be collected.
  bool look();
  // Is anything under way: statistics (to be polled), blobs (their writer wakes the drain thread)?
  bool awaits_statistics() const noexcept { return awaits_statistics_; }
  bool awaits_blobs() const noexcept { return awaits_blobs_; }
  // Appends up to `limit` records; true when more are there. Without `encode` they are only
  // counted.
  bool collect(std::size_t limit, bool encode, model::Batch& batch);
  // Records that the last collect took, without those for which there was no memory: these are
  // lost and counted.
  std::size_t collected() const noexcept { return collected_; }
  // Messages about the first values of the session that are not finite; usually empty.
  std::vector<std::string> take_alarms() { return alarms_.take_texts(); }
  // Stops waiting: every capture counts as complete, with the data it has.
  void give_up();
  // Captures that are added from now on are lost and counted.
  void close();

 private:
  struct Held {
    snapshot::Capture capture;
    std::uint64_t since_ns = 0;
    std::size_t next = 0;  // record to be written
    bool examined = false;
  };
  void complete(Held& held, bool give_up);
  void examine_new();
  bool append(const snapshot::Capture& capture, std::size_t record, model::Batch& batch) noexcept;

  mutable std::mutex lock_;  // guards the next three
  std::vector<snapshot::Capture> incoming_;
  std::size_t waiting_records_ = 0;
  bool closed_ = false;
  std::atomic<std::uint64_t> lost_{0};

  std::deque<Held> held_;
  bool awaits_statistics_ = false, awaits_blobs_ = false;
  std::size_t collected_ = 0;
  base::Id key_ = base::random_id();
  std::uint64_t next_id_ = 1;
  base::JsonWriter json_;
  FirstNonFinite alarms_;
};

}  // namespace sonde::session
