// What a follower of running processes sees: the spans that close, the processes that begin and
// end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/arena.h"
#include "engine/model/level.h"
#include "engine/model/trace.h"

namespace sonde::model {

struct LiveSpan {
  Span span;
  std::vector<Mark> marks;
  Place place;                 // the scopes around it
  std::string api;             // of its session; empty: no session is known
  std::size_t more_marks = 0;  // older ones, which are not in `marks`
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

// What one look brought, in the order in which it is to be shown.
struct Look {
  std::vector<ProcessEvent> began;
  std::vector<LiveSpan> spans;  // that closed since the last look, in the order they closed
  std::vector<ProcessEvent> ended;
  bool several_ranks = false;  // among the spans and processes seen so far
  bool gone = false;  // what is followed was removed: nothing more can be seen of its processes
  std::vector<std::string> problems;                      // what could not be read; each comes once
  std::vector<std::shared_ptr<const base::Arena>> texts;  // what the spans and marks point at
};

}  // namespace sonde::model
