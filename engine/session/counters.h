// What a session counts: losses, sizes and states.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/swallowed.h"

namespace sonde::session {

struct Counters {
  std::uint64_t dropped_scopes = 0;  // beyond the depth limit
  std::uint64_t dropped_spans = 0;   // no room
  std::uint64_t dropped_marks = 0;   // no room
  std::uint64_t evicted_files = 0;
  std::uint64_t spool_bytes = 0;
  std::uint64_t write_failures = 0;
  std::uint64_t lost_batches = 0;  // could neither be written nor be kept any longer
  std::uint64_t waiting_batches = 0;
  std::uint64_t recovered_journals = 0;
  std::uint64_t recovered_spans = 0;
  std::uint64_t recovery_problems = 0;
  std::uint64_t clock_steps = 0;
  std::uint64_t damaged_records = 0;
  std::uint64_t journal_bytes = 0;
  std::uint64_t flushed_batches = 0;
  std::uint64_t snapshots = 0;          // records that went through the sinks
  std::uint64_t dropped_snapshots = 0;  // records that did not
  std::uint64_t blobs = 0;              // files with raw tensors
  std::uint64_t dropped_blobs = 0;
  std::string journal;  // path; empty: in memory only
  base::SwallowedErrors swallowed;
  enum class Mode {
    kStopped,
    kNormal,
    kDegraded
  } mode = Mode::kStopped;  // degraded: batches wait for the disk
};

}  // namespace sonde::session
