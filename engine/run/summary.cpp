#include "engine/run/summary.h"

#include <utility>
#include <vector>

#include "engine/analysis/summary.h"
#include "engine/model/trace.h"
#include "engine/run/selection.h"
#include "engine/run/source.h"
#include "engine/run/trace.h"

namespace sonde::run {

RunSummary summarize(Source& source, const Choice& choice) {
  analysis::Summarizer summarizer;
  Stream stream = stream_spans(
      source, choice, [&](const std::vector<model::Span>& spans) { summarizer.add(spans); });
  return {summarizer.finish(choice.name), stream.chosen_runs, std::move(stream.missing),
          std::move(stream.skipped)};
}

}  // namespace sonde::run
