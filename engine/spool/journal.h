// Journals of other processes, read from their files: a running one without disturbing it, a dead
// one to move what it left into the spool.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/trace.h"

namespace sonde::spool {

inline constexpr std::string_view kLiveFolder = "live";
inline constexpr std::string_view kSpoolFolder = "spool";
inline constexpr std::string_view kJournalSuffix = ".journal";

// A scope that was open when the journal was read.
struct OpenScopeView {
  model::Span span;  // end_ns is kNone
  std::uint64_t sequence = 0;
  std::uint64_t os_thread_id = 0;
  std::uint32_t lane = 0;
  bool task = false;     // an asyncio task's, not a thread's
  bool session = false;  // the root, which belongs to no lane
};

// What one journal says. Views point into `records.arena`.
struct JournalReport {
  std::string path;
  std::uint32_t version = 0;
  std::int32_t pid = 0, rank = 0, local_rank = 0, world_size = 0;
  std::string host;
  bool alive = false;           // some process holds the journal's lock
  bool clean = false;           // it was shut down properly, and everything is in the spool
  bool ended = false;           // it was shut down properly
  std::int64_t started_ns = 0;  // wall clock
  std::int64_t last_sign_ns =
      0;  // the latest thing known to have happened: a tick, a record, a scope
  // Up to when what is open is known to have been so: now, or the last sign of life.
  std::int64_t seen_ns = 0;
  std::uint64_t lost_records = 0;
  std::vector<OpenScopeView> open;  // by lane, outermost first; the session first of all
  model::Batch records;             // closed but not yet in the spool, by the time they ended
  std::uint64_t damaged = 0;        // records or chains that could not be read
};

// Reads; never writes, never locks out the owner. A file that is no journal, or one of another
// version, is an error (EPROTO) whose text says which version it has and what to do.
base::Status inspect_journal(const std::string& path, JournalReport& out);

struct Recovery {
  std::uint64_t journals = 0;  // dead journals moved into the spool and removed
  std::uint64_t ended = 0;     // those of them whose run came to its end, and could not write
  std::uint64_t spans = 0, marks = 0, open_scopes = 0;
  std::uint64_t running = 0;  // journals left alone because their process lives
  std::uint64_t refused = 0;  // of another version, damaged, or unwritable: left where they are
  std::vector<std::string> files;     // spool files written
  std::vector<std::string> problems;  // one line each, ending with what to do
};

// Moves every dead journal under `<output_dir>/live` into `<output_dir>/spool`, each exactly once,
// also if this process is killed half-way or several processes try at the same time. An open scope
// becomes a span that ends at the last sign of life with the attribute sonde.closed_by = "death".
// `own`: path of the caller's journal, at which there is nothing to see.
Recovery recover_directory(const std::string& output_dir, const std::string& own = {});

}  // namespace sonde::spool
