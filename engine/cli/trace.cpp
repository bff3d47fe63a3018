// sonde trace DIR: the tree of a recorded run.
#include <CLI/CLI.hpp>

#include <memory>
#include <string>

#include "engine/cli/choice.h"
#include "engine/cli/command.h"
#include "engine/cli/opening.h"
#include "engine/cli/output.h"
#include "engine/report/runs.h"
#include "engine/report/summary.h"
#include "engine/report/tree.h"
#include "engine/run/selection.h"
#include "engine/run/source.h"
#include "engine/run/summary.h"
#include "engine/run/trace.h"

namespace sonde::cli {

namespace {

struct TraceOptions {
  std::string directory;
  bool summary = false;
  bool json = false;
  run::TraceQuery query;
  report::TreeOptions tree;
};

int print_summary(run::Source& source, const TraceOptions& options) {
  const run::RunSummary run = run::summarize(source, options.query.choice);
  if (!report_skipped(run.skipped)) return 1;
  complain_of(run.missing, source.called());
  print(options.json ? report::summary_json(run.summary)
                     : report::added_up_line(run.summary, run.chosen_runs) +
                           report::summary_text(run.summary));
  return 0;
}

int draw_tree(run::Source& source, const TraceOptions& options) {
  const run::Trace trace = run::read_trace(source, options.query);
  if (!report_skipped(trace.skipped)) return 1;
  const std::string advice = report::many_spans_line(trace.spans_read, !options.query.last);
  if (!advice.empty()) complain(advice);
  complain_of(trace.missing, source.called());
  report::TreeOptions tree = options.tree;
  tree.runs = &trace.runs;
  tree.number_runs = trace.all_runs;
  print(options.json ? report::tree_json(trace.spans, trace.marks)
                     : report::tree_text(trace.spans, trace.marks, tree));
  return 0;
}

int run_trace(const TraceOptions& options) {
  const std::unique_ptr<run::Source> source = open_records(options.directory);
  if (!source) return 1;
  return options.summary ? print_summary(*source, options) : draw_tree(*source, options);
}

}  // namespace

Run declare_trace(CLI::App& app) {
  const auto options = std::make_shared<TraceOptions>();
  add_directory(app, options->directory, kDirectoryOrFile);
  app.add_option("--name", options->query.choice.name,
                 "Only spans of this name and what is below them");
  add_choice(app, options->query.choice);
  auto* last = app.add_option("--last", options->query.last, "Only the N spans that ended last");
  app.add_option("--limit", options->tree.sibling_limit,
                 "Same-named siblings to print before adding up the rest; 0: all")
      ->capture_default_str();
  auto* attrs = app.add_flag("--attrs", options->tree.attrs, "Show the attributes after each span");
  app.add_flag("--summary", options->summary, "Add up by name: counts, totals, quantiles, shares")
      ->excludes(last)
      ->excludes(attrs);
  app.add_flag("--json", options->json, "JSON instead of text");
  return [options] { return run_trace(*options); };
}

}  // namespace sonde::cli
