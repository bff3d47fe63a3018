// A trace as an indented tree, and the same as JSON.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "engine/model/runs.h"
#include "engine/model/trace.h"

namespace sonde::report {

struct TreeOptions {
  // Siblings of one name that are printed; the rest becomes one line that adds them up. Shown in
  // any case: where the run is or ended, and the newest that failed. 0: all.
  std::size_t sibling_limit = 20;
  bool attrs = false;  // attributes after the marks, as JSON
  // If given, and a rank has more than one run: a line above each run says which it is.
  const model::Runs* runs = nullptr;
  bool number_runs = true;
};

// One line per span, two spaces per level, marks after their span. Several ranks are drawn as one
// group each, and so are several runs, the oldest first. Ends with a newline; "(no spans)" for
// none.
std::string tree_text(std::span<const model::Span> spans, std::span<const model::Mark> marks,
                      const TreeOptions& options = {});

// Advice for a tree of so many spans that a summary serves better; "" for fewer.
std::string many_spans_line(std::size_t spans, bool all_shown);

// {"roots": [...], "span_count": n} with the nodes of trace(format="dict") and their pid and rank.
// Leaves out only spans below 200 levels: common JSON parsers refuse deeper nesting.
std::string tree_json(std::span<const model::Span> spans, std::span<const model::Mark> marks);

}  // namespace sonde::report
