// Adds up the spans of a run by name.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/analysis/summary.h"
#include "engine/model/missing.h"
#include "engine/run/reader.h"
#include "engine/run/selection.h"
#include "engine/run/source.h"

namespace sonde::run {

struct RunSummary {
  analysis::Summary summary;
  std::size_t chosen_runs = 0;  // as in Stream
  std::vector<model::Missing> missing;
  Skipped skipped;
};

// Of the chosen run and rank; with a name, only the subtrees of that name, wherever they are.
RunSummary summarize(Source& source, const Choice& choice);

}  // namespace sonde::run
