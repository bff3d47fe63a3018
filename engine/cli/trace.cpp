// sonde trace DIR: the tree of a recorded run.
#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "engine/analysis/summary.h"
#include "engine/cli/collect.h"
#include "engine/cli/command.h"
#include "engine/cli/locate.h"
#include "engine/cli/output.h"
#include "engine/model/select.h"
#include "engine/report/summary.h"
#include "engine/report/tree.h"

namespace sonde::cli {

namespace {

struct TraceOptions {
  std::string directory = ".cirron";
  bool summary = false;
  bool json = false;
  std::string name;
  std::optional<std::size_t> last;
  std::optional<int> rank;
  report::TreeOptions tree;
};

int summarize(Collector& collector, const TraceOptions& options) {
  analysis::Summarizer summarizer;
  collector.each_batch(spool::Detail::kTimings, true, [&](model::Batch& batch) {
    if (options.rank)
      std::erase_if(batch.spans,
                    [&](const model::Span& span) { return span.rank != *options.rank; });
    summarizer.add(batch.spans);
  });
  if (!collector.report_skipped()) return 1;
  const analysis::Summary summary = summarizer.finish(options.name);
  print(options.json ? report::summary_json(summary) : report::summary_text(summary));
  return 0;
}

int draw_tree(Collector& collector, const TraceOptions& options) {
  const bool only_last = options.last && options.name.empty();
  Trace trace = only_last ? collector.collect_last(*options.last, options.rank)
                          : collector.collect(options.rank);
  if (!collector.report_skipped()) return 1;
  constexpr std::size_t kMany = 1'000'000;
  if (trace.spans.size() > kMany && !options.last) {
    complain(fmt::format("{} spans: --summary is faster and shows more", trace.spans.size()));
  }
  if (!options.name.empty()) trace.spans = model::select_name(trace.spans, options.name);
  if (options.last && !only_last) trace.spans = model::select_last(trace.spans, *options.last);
  print(options.json ? report::tree_json(trace.spans, trace.marks)
                     : report::tree_text(trace.spans, trace.marks, options.tree));
  return 0;
}

int run(const TraceOptions& options) {
  Place place;
  if (!locate_or_complain(options.directory, place)) return 1;
  if (place.files.empty() && place.journals.empty()) {
    complain(options.directory +
             " holds no spool file and no journal; name the output directory of a run (by default "
             ".cirron)");
    return 1;
  }
  Collector collector(place);
  return options.summary ? summarize(collector, options) : draw_tree(collector, options);
}

}  // namespace

Run declare_trace(CLI::App& app) {
  const auto options = std::make_shared<TraceOptions>();
  app.add_option("DIR", options->directory,
                 "Output directory of a run, its spool, or one spool file")
      ->capture_default_str();
  app.add_option("--name", options->name, "Only spans of this name and what is below them");
  app.add_option("--rank", options->rank, "Only this rank");
  auto* last = app.add_option("--last", options->last, "Only the N spans that ended last");
  app.add_option("--limit", options->tree.sibling_limit,
                 "Same-named siblings to print before adding up the rest; 0: all")
      ->capture_default_str();
  app.add_flag("--summary", options->summary, "Add up by name: counts, totals, quantiles, shares")
      ->excludes(last);
  app.add_flag("--json", options->json, "JSON instead of text");
  return [options] { return run(*options); };
}

}  // namespace sonde::cli
