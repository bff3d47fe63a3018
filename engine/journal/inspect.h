// What the journal of another process says. A running process is not disturbed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/journal/destination.h"
#include "engine/journal/open_scopes.h"
#include "engine/journal/ring_reader.h"
#include "engine/model/trace.h"

namespace sonde::journal {

inline constexpr std::string_view kLiveFolder = "live";
inline constexpr std::string_view kJournalSuffix = ".journal";
// `<20-digit ns>-<32 hex>.journal`: the order of names is the order of time.
std::string file_name(std::int64_t started_ns, const base::Id& key);

// What one journal says. Views point into `records.arena`.
struct Report {
  std::string path;
  std::uint32_t version = 0;
  std::int32_t pid = 0, rank = 0, local_rank = 0, world_size = 0;
  std::string host;
  bool alive = false;             // some process holds the journal's lock
  bool clean = false;             // it was shut down properly, and everything is in the spool
  bool ended = false;             // it was shut down properly
  std::int64_t started_ns = 0;    // wall clock
  std::int64_t last_sign_ns = 0;  // of the latest thing known to have happened: a tick, a record
  // Until when the open scopes are known to have been open: now, or the last sign of life.
  std::int64_t seen_ns = 0;
  std::uint64_t lost_records = 0;
  std::vector<OpenScopeView> open;  // by lane, outermost first; the session first of all
  model::Batch records;             // closed but not yet in the spool, by the time they ended
  std::uint64_t damaged = 0;        // records or chains that could not be read
};

// Reads; never writes, never locks out the owner. A batch that was announced and is at its
// destination is not part of the report. A file that is no journal, or one of another version, is
// an error (EPROTO) whose text says which version it has and what to do.
base::Status inspect(const std::string& path, const Destination& destination, Report& out);

// Fills in which process wrote the journal, and when.
void describe(const View& view, Report& out);

}  // namespace sonde::journal
