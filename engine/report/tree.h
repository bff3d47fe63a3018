// A trace as an indented tree, and the same as JSON.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "engine/model/runs.h"
#include "engine/model/trace.h"

namespace sonde::report {

struct TreeOptions {
  // Siblings of one name that are printed; the rest becomes one line that adds them up. 0: all.
  std::size_t sibling_limit = 20;
  bool attrs = false;  // attributes behind the marks, as JSON
  // Given, and where a rank shows more than one run: a line above each says which it is.
  const model::Runs* runs = nullptr;
  bool number_runs = true;
};

// One line per span, two spaces per level, marks behind their span. Where there are several ranks,
// each is a group of its own, and so is each run, the oldest first. Ends with a newline; "(no
// spans)" for none.
std::string tree_text(std::span<const model::Span> spans, std::span<const model::Mark> marks,
                      const TreeOptions& options = {});

// {"roots": [...], "span_count": n} with the nodes of trace(format="dict") and their pid and rank.
// Never leaves spans out, except below 200 levels, where no program reads JSON any more.
std::string tree_json(std::span<const model::Span> spans, std::span<const model::Mark> marks);

}  // namespace sonde::report
