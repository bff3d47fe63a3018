// Reads the chosen spans of a run, into memory or as a stream.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/id.h"
#include "engine/model/missing.h"
#include "engine/model/runs.h"
#include "engine/model/trace.h"
#include "engine/run/reader.h"
#include "engine/run/selection.h"
#include "engine/run/source.h"

namespace sonde::run {

struct Trace {
  std::vector<model::Span> spans;
  std::vector<model::Mark> marks;
  std::vector<base::Id> mark_ids;   // Span::first_mark_id points into them
  std::vector<base::Arena> arenas;  // what the views point into

  model::Runs runs;
  bool all_runs = true;        // false: read from the end, no further than needed
  std::size_t spans_read = 0;  // of the wanted rank, before the rest was selected
  std::vector<model::Missing> missing;
  Skipped skipped;

  void add(model::Batch& batch);  // moves from it
};

struct TraceQuery {
  Choice choice;
  std::optional<std::size_t> last;  // only that many, those that ended last, newest first
};

// If only the last spans are wanted, reads from the newest batch backwards and no further than
// needed. Some of the marks may be on spans that were left out.
Trace read_trace(Source& source, const TraceQuery& query);

// What is known once a stream of spans has ended.
struct Stream {
  model::Runs runs;
  std::size_t chosen_runs = 0;  // how many runs have the chosen rank; 1 if one run was chosen
  std::vector<model::Missing> missing;
  Skipped skipped;
};

// Calls `take` with the timings of all spans of the chosen run and rank, batch by batch; those that
// are still open come last. The caller has to select by the name of the choice: the spans below one
// of that name come before it.
Stream stream_spans(Source& source, const Choice& choice,
                    const std::function<void(const std::vector<model::Span>&)>& take);

}  // namespace sonde::run
