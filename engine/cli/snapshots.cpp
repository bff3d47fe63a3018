// sonde snapshots DIR: what the weights and gradients of a recorded run looked like.
#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/analysis/tensors.h"
#include "engine/cli/choice.h"
#include "engine/cli/command.h"
#include "engine/cli/opening.h"
#include "engine/cli/output.h"
#include "engine/model/epochs.h"
#include "engine/model/missing.h"
#include "engine/model/trace.h"
#include "engine/report/no_snapshots.h"
#include "engine/report/tensors.h"
#include "engine/run/snapshots.h"
#include "engine/run/source.h"

namespace sonde::cli {

namespace {

struct SnapshotsOptions {
  std::string directory;
  run::SnapshotQuery query;
  bool json = false;
  bool csv = false;
  bool all = false;

  // What was named is shown in full.
  bool in_full() const noexcept { return all || query.epoch || !query.tensor.empty(); }
};

void explain(const run::NoRecords& why, const run::Source& source) {
  if (why.missing.what != model::Missing::What::kCaptures)
    return complain_of({why.missing}, source.called());
  for (const std::string& line : report::no_snapshots_lines(why.reasons)) complain(line);
}

// Prints records as they come.
int print_json(run::Source& source, const run::SnapshotQuery& query) {
  run::SnapshotSearch search(source, query);
  report::TensorJsonArray array;
  search.each([&](const model::Epoch& epoch, const model::TensorStats&, std::string_view record) {
    array.add(epoch, record);
    if (const std::string piece = array.take_full_piece(); !piece.empty()) print(piece);
  });
  const bool read = report_skipped(search.skipped());
  print(array.finish());
  if (read && array.empty()) explain(search.why_none(), source);
  return read ? 0 : 1;
}

void print_csv(const std::vector<analysis::TensorLine>& lines) {
  report::TensorCsv csv;
  for (const analysis::TensorLine& line : lines) {
    csv.add(line);
    if (const std::string piece = csv.take_full_piece(); !piece.empty() && !print(piece)) return;
  }
  print(csv.finish());
}

int print_table(run::Source& source, const SnapshotsOptions& options) {
  run::Tensors tensors = run::read_tensors(source, options.query);
  if (!report_skipped(tensors.skipped)) return 1;
  if (tensors.table.lines().empty()) explain(tensors.none, source);
  if (options.csv) {
    print_csv(tensors.table.lines());
  } else {
    print(report::table_text(std::move(tensors.table), options.in_full()));
  }
  return 0;
}

int run_snapshots(const SnapshotsOptions& options) {
  const std::unique_ptr<run::Source> source = open_records(options.directory);
  if (!source) return 1;
  return options.json ? print_json(*source, options.query) : print_table(*source, options);
}

}  // namespace

Run declare_snapshots(CLI::App& app) {
  const auto options = std::make_shared<SnapshotsOptions>();
  run::SnapshotQuery& query = options->query;
  add_directory(app, options->directory, kDirectoryOrFile);
  app.add_option("--tensor", query.tensor,
                 "Only tensors whose name matches, such as 'layer*.weight'");
  app.add_option("--epoch", query.epoch, "Only the epoch with this number");
  auto* weights = app.add_flag_callback(
      "--weights", [options] { options->query.gradients = false; }, "Only weights");
  app.add_flag_callback(
         "--gradients", [options] { options->query.weights = false; }, "Only gradients")
      ->excludes(weights);
  add_choice(app, query.choice);
  app.add_flag("--all", options->all, "All epochs, however long the table gets");
  auto* csv = app.add_flag("--csv", options->csv, "CSV instead of a table: all lines, all digits");
  app.add_flag("--json", options->json,
               "The records as JSON, histograms included, in the order in which they were written")
      ->excludes(csv);
  return [options] { return run_snapshots(*options); };
}

}  // namespace sonde::cli
