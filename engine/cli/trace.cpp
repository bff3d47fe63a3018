// sonde trace DIR: the tree of a recorded run.
#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/analysis/summary.h"
#include "engine/cli/collect.h"
#include "engine/cli/command.h"
#include "engine/cli/locate.h"
#include "engine/cli/output.h"
#include "engine/cli/selection.h"
#include "engine/model/select.h"
#include "engine/report/runs.h"
#include "engine/report/summary.h"
#include "engine/report/tree.h"

namespace sonde::cli {

namespace {

struct TraceOptions {
  std::string directory = ".cirron";
  bool summary = false;
  bool json = false;
  Choice choice;
  std::optional<std::size_t> last;
  report::TreeOptions tree;
};

// Which run a span is of is only known once all were seen: one run costs a look beforehand.
bool look_ahead(const Place& place, const TraceOptions& options, Selection& selection) {
  Collector collector(place, true);
  collector.each_batch(spool::Detail::kTimings, true,
                       [&](model::Batch& batch) { selection.look(batch.spans); });
  return selection.settle(options.directory);
}

int summarize(const Place& place, const TraceOptions& options) {
  Selection selection(options.choice);
  const bool one_run = selection.wants_run();
  const bool there = !one_run || look_ahead(place, options, selection);
  Collector collector(place);
  analysis::Summarizer summarizer;
  collector.each_batch(spool::Detail::kTimings, true, [&](model::Batch& batch) {
    if (!one_run) selection.look(batch.spans);
    selection.narrow(batch.spans);
    if (there) summarizer.add(batch.spans);
  });
  if (!collector.report_skipped()) return 1;
  if (!one_run) selection.settle(options.directory);
  selection.explain_rank();
  selection.explain_name(summarizer.names());
  const analysis::Summary summary = summarizer.finish(options.choice.name);
  if (!options.json && !one_run && !summary.ranks.empty())
    print(report::added_up_line(selection.runs(), options.choice.rank));
  print(options.json ? report::summary_json(summary) : report::summary_text(summary));
  return 0;
}

std::vector<std::string_view> names_of(const std::vector<model::Span>& spans) {
  std::vector<std::string_view> names;
  names.reserve(spans.size());
  for (const model::Span& span : spans) names.push_back(span.name);
  return names;
}

// Narrows the spans down to what was asked for, and says so where that is nothing.
void select(Selection& selection, const TraceOptions& options, std::vector<model::Span>& spans) {
  if (selection.settle(options.directory)) {
    selection.narrow(spans);
  } else {
    spans.clear();
  }
  selection.explain_rank();
  if (options.choice.name.empty()) return;
  std::vector<model::Span> selected = model::select_name(spans, options.choice.name);
  if (selected.empty()) selection.explain_name(names_of(spans));
  spans = std::move(selected);
}

int draw_tree(const Place& place, const TraceOptions& options) {
  Selection selection(options.choice);
  Collector collector(place);
  const auto filter = [&](model::Batch& batch) {
    selection.look(batch.spans);
    selection.narrow(batch.spans);
  };
  // Read from the end, only some of the runs are seen.
  const bool only_last = options.last && options.choice.name.empty() && !selection.wants_run();
  Trace trace =
      only_last ? collector.collect_last(*options.last, filter) : collector.collect(filter);
  if (!collector.report_skipped()) return 1;
  constexpr std::size_t kMany = 1'000'000;
  if (trace.spans.size() > kMany && !options.last) {
    complain(fmt::format("{} spans: --summary is faster and shows more", trace.spans.size()));
  }
  select(selection, options, trace.spans);
  if (options.last && !only_last) trace.spans = model::select_last(trace.spans, *options.last);
  report::TreeOptions tree = options.tree;
  tree.runs = &selection.runs();
  tree.number_runs = !only_last;
  print(options.json ? report::tree_json(trace.spans, trace.marks)
                     : report::tree_text(trace.spans, trace.marks, tree));
  return 0;
}

int run(const TraceOptions& options) {
  Place place;
  if (!locate_with_records(options.directory, place)) return 1;
  return options.summary ? summarize(place, options) : draw_tree(place, options);
}

}  // namespace

Run declare_trace(CLI::App& app) {
  const auto options = std::make_shared<TraceOptions>();
  app.add_option("DIR", options->directory,
                 "Output directory of a run, its spool, or one spool file")
      ->capture_default_str();
  app.add_option("--name", options->choice.name, "Only spans of this name and what is below them");
  app.add_option("--rank", options->choice.rank, "Only this rank");
  app.add_option("--run", options->choice.run, "Only this run: its number, or last")
      ->check(CLI::Range(1, std::numeric_limits<int>::max()) | CLI::IsMember({"last"}));
  auto* last = app.add_option("--last", options->last, "Only the N spans that ended last");
  app.add_option("--limit", options->tree.sibling_limit,
                 "Same-named siblings to print before adding up the rest; 0: all")
      ->capture_default_str();
  auto* attrs = app.add_flag("--attrs", options->tree.attrs, "Attributes behind each span");
  app.add_flag("--summary", options->summary, "Add up by name: counts, totals, quantiles, shares")
      ->excludes(last)
      ->excludes(attrs);
  app.add_flag("--json", options->json, "JSON instead of text");
  return [options] { return run(*options); };
}

}  // namespace sonde::cli
