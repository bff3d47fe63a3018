// Why a run has no snapshots, concluded from its sessions and epochs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/model/runs.h"
#include "engine/model/trace.h"

namespace sonde::analysis {

// Why one session has no snapshots.
struct NoSnapshots {
  enum class Cause {
    kOff,         // they were switched off
    kForeign,     // the session does not say how they were set: another SDK recorded it
    kSaid,        // the session says why
    kGone,        // some were taken, but are not here
    kNoEpochYet,  // it runs, and no epoch has begun
    kFirstEpoch,  // it runs, in its first epoch
    kOnTheWay,    // it runs, and an epoch has just ended
    kDiedEarly,   // before its first epoch ended
    kDied,        // later, with nothing written
    kUnknown,
  };
  Cause cause = Cause::kUnknown;
  std::size_t run = 0;
  std::int32_t rank = 0;
  std::string said;
  std::int64_t taken = 0;     // records
  std::int64_t epoch_ns = 0;  // kFirstEpoch: how long it has been open
};

// Sessions and epochs of the runs in question, with the attributes of the sessions.
std::vector<NoSnapshots> why_no_snapshots(std::span<const model::Span> sessions,
                                          std::span<const model::Span> epochs,
                                          const model::Runs& runs);

}  // namespace sonde::analysis
