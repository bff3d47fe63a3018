// The run of a span, where several runs wrote into one directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/trace.h"

namespace sonde::model {

// A session of a run. A process of which no session is known counts as one.
struct RunPart {
  std::int32_t rank = 0, pid = 0;
  std::int64_t start_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ns = std::numeric_limits<std::int64_t>::min();
  bool session = false;  // false: the times are those of the spans that are known
  std::size_t run = 0;   // 1 is the oldest
  std::string run_id;    // as the platform gave it; empty: not known
  std::string program;   // the same in all processes of a program; empty: not written by this SDK
  std::string process;   // name of a child process; empty: a main program
  std::string launch;    // the same on all ranks that a launcher started; empty: there was none
};

// Sessions of one program are one run. Sessions of different ranks that overlap in time are one run
// too, unless different launchers started them. All other sessions are different runs. Processes of
// the same rank and pid that run at the same time (in containers) are not told apart.
class Runs {
 public:
  // Spans of all ranks, in any order; may be called repeatedly.
  void add(std::span<const Span> spans);
  // Ends adding. The functions below need it.
  void finish();

  // All of them, or those in which this rank took part.
  std::size_t count(std::optional<int> rank = {}) const;
  // The run of a span that was added. What a process recorded outside of its sessions belongs to
  // the next one, or to the last.
  const RunPart& part_of(const Span& span) const;
  // The number of that run; 0 for a process that was not there while adding.
  std::size_t run_of(const Span& span) const;

 private:
  using Key = std::pair<std::int32_t, std::int32_t>;  // rank, pid
  struct Process {
    RunPart whole;
    std::vector<RunPart> sessions;
    std::vector<std::size_t> parts;  // into parts_, by start
  };
  Process& process_of(const Span& span);
  void number();

  std::map<Key, Process> processes_;
  std::pair<const Key, Process>* recent_ = nullptr;
  std::vector<RunPart> parts_;  // by start
  std::size_t count_ = 0;
};

}  // namespace sonde::model
