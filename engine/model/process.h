// What is known of processes from outside: whether they run, what they have open, what they did
// last, and what was recovered of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/arena.h"
#include "engine/model/ending.h"
#include "engine/model/trace.h"

namespace sonde::model {

struct OpenScope {
  Span span;
  std::uint64_t os_thread_id = 0;
  std::uint32_t lane = 0;  // number of the stack, which belongs to a thread or a task
  bool task = false;       // an asyncio task's, not a thread's
  bool session = false;    // the root span, which is on no stack
};

enum class Fate {
  kRunning,
  kDead,       // without having shut down
  kShutDown,   // properly; only the journal file was left
  kEnded,      // properly, but the spool could not take everything: the rest is in the journal
  kRecovered,  // dead, and moved to the spool earlier: known from the spool alone
};

// Times are wall clock; 0: not known.
struct ProcessState {
  std::int32_t pid = 0, rank = 0, world_size = 0;
  std::string host;
  Fate fate = Fate::kDead;
  bool moved = false;  // what its journal held has been moved into the spool
  std::int64_t started_ns = 0;
  std::int64_t last_sign_ns = 0;  // of the latest known event: a tick, a record, an open scope
  // Until when the open scopes are known to have been open: now, or the last sign of life.
  std::int64_t seen_ns = 0;
  std::vector<OpenScope> open;   // by lane, outermost first; the session before all others
  std::vector<Span> last_spans;  // oldest first
  std::vector<Mark> last_marks;
  std::vector<Span> marked_spans;  // older spans that some of the last marks are on
  std::uint64_t unflushed_spans = 0, unflushed_marks = 0;
  std::uint64_t lost_records = 0;
  std::uint64_t damaged = 0;  // records that cannot be read
};

// A process that runs, or that died and has not been recovered.
struct Process {
  // Its last spans and marks are not in here but in `records`. Points into the arena of `records`.
  ProcessState state;
  Batch records;  // closed, but not stored yet; by the time they ended
};

// What recovering the journals of dead processes brought.
struct Recovery {
  std::uint64_t journals = 0;  // of dead processes, moved into the spool and removed
  std::uint64_t ended = 0;     // of these: the run ended properly but could not write everything
  std::uint64_t spans = 0, marks = 0, open_scopes = 0;
  std::uint64_t damaged = 0;       // at least so many records could not be read and are lost
  std::vector<std::string> files;  // names of the spool files that were written
  // One line each, ending with what to do. A journal that is left in place has one, unless its
  // process lives or it is being recovered.
  std::vector<std::string> problems;
};

// The processes that run now, without their last spans and marks.
struct RunningProcesses {
  std::int64_t now_ns = 0;
  std::vector<ProcessState> processes;
  std::vector<std::string> problems;
  std::vector<base::Arena> arenas;  // the text that the open scopes point at
};

// A process that ended and left nothing behind.
struct EndedProcess {
  Span session;
  Ending ending;
};

// What an autopsy concludes.
struct Autopsy {
  std::string source;  // that was examined, as a command has to be given it
  std::int64_t now_ns = 0;
  std::vector<ProcessState> processes;
  std::vector<EndedProcess> ended;  // those that ended last, the newest at the end
  bool kept = false;                // the caller wanted nothing to be moved
  Recovery moved;
  std::vector<std::string> problems;  // of reading and of recovery
  std::vector<base::Arena> arenas;    // the text that the spans and marks above point at
};

}  // namespace sonde::model
