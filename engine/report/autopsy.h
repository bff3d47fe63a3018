// What processes left behind, as text and as JSON. It says what is known and what is not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/trace.h"

namespace sonde::report {

struct OpenScope {
  model::Span span;
  std::uint64_t os_thread_id = 0;
  std::uint32_t lane = 0;  // a thread's or task's stack
  bool task = false;
  bool session = false;
};

enum class Fate {
  kRunning,
  kDead,       // without having shut down
  kShutDown,   // properly; only the file was left
  kEnded,      // properly, but the spool could not take everything: the rest was in the journal
  kRecovered,  // dead, and moved to the spool earlier: known from the spool alone
};

// One process. Times are wall clock; 0: not known.
struct ProcessState {
  std::int32_t pid = 0, rank = 0, world_size = 0;
  std::string host;
  Fate fate = Fate::kDead;
  bool moved = false;  // what its journal held is in the spool by now
  std::int64_t started_ns = 0;
  std::int64_t last_sign_ns = 0;
  std::vector<OpenScope> open;          // by lane, outermost first
  std::vector<model::Span> last_spans;  // oldest first
  std::vector<model::Mark> last_marks;
  std::uint64_t unflushed_spans = 0, unflushed_marks = 0;
  std::uint64_t lost_records = 0;
  std::uint64_t damaged = 0;
};

struct Autopsy {
  std::string directory;
  std::int64_t now_ns = 0;
  std::vector<ProcessState> processes;
  // Sessions of processes that left nothing behind: those that ended last, the newest at the end.
  std::vector<model::Span> ended;
  bool kept = false;  // nothing was to be moved
  std::uint64_t moved_journals = 0, moved_spans = 0, moved_marks = 0, moved_scopes = 0;
  std::vector<std::string> moved_files;
  std::vector<std::string> problems;
};

std::string autopsy_text(const Autopsy& autopsy);
std::string autopsy_json(const Autopsy& autopsy);

}  // namespace sonde::report
