// What a follower of running processes sees: the processes that begin, what they have open, the
// spans that close, the marks that are set, the processes that end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/arena.h"
#include "engine/model/level.h"
#include "engine/model/process.h"
#include "engine/model/trace.h"

namespace sonde::model {

struct LiveSpan {
  Span span;
  std::vector<Mark> marks;
  Place place;                              // the scopes around it, as far as they are known
  std::string api;                          // of its session; empty: no session is known
  std::size_t more_marks = 0;               // older ones, which are not in `marks`
  std::shared_ptr<const base::Arena> text;  // what the span and its marks point at
};

struct ProcessEvent {
  enum class Kind {
    kBegan,  // or was seen for the first time
    kEnded,
    kDied,  // without shutting down
  };
  Kind kind = Kind::kBegan;
  std::int32_t pid = 0, rank = 0;
  std::int64_t age_ns = 0;  // of its session, when it was last looked at
  std::string api;          // as in LiveSpan
};

// What one look brought.
struct Look {
  std::vector<ProcessEvent> began;
  // Those that are followed and still have a journal, as they are now: what they have open, what
  // they lost. Without their last spans and marks.
  std::vector<ProcessState> processes;
  std::vector<LiveSpan> spans;  // that closed since the last look, in the order they closed
  // That were set since the last look, in order of time. Most are on spans that are still open.
  // When such a span closes, its marks come again, as LiveSpan::marks.
  std::vector<Mark> marks;
  std::vector<ProcessEvent> ended;
  Surroundings around;         // the scopes that were seen in this look
  bool several_ranks = false;  // among the spans and processes seen so far
  bool gone = false;  // what is followed was removed: nothing more can be seen of its processes
  std::vector<std::string> problems;        // what could not be read; each comes once
  std::shared_ptr<const base::Arena> text;  // what the marks point at
  std::vector<base::Arena> arenas;          // what the open scopes point at
};

}  // namespace sonde::model
