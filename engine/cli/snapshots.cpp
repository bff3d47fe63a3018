// sonde snapshots DIR: what the weights and gradients of a recorded run looked like.
#include <CLI/CLI.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/analysis/no_snapshots.h"
#include "engine/analysis/tensors.h"
#include "engine/cli/choice.h"
#include "engine/cli/command.h"
#include "engine/cli/output.h"
#include "engine/cli/place.h"
#include "engine/model/epochs.h"
#include "engine/model/missing.h"
#include "engine/model/trace.h"
#include "engine/report/no_snapshots.h"
#include "engine/report/tensors.h"
#include "engine/run/directory_source.h"
#include "engine/run/snapshots.h"

namespace sonde::cli {

namespace {

struct SnapshotsOptions {
  std::string directory;
  run::SnapshotQuery query;
  bool all = false;
  bool json = false;
  bool csv = false;
};

constexpr std::size_t kReadable = 40;      // lines
constexpr std::size_t kPiece = 1u << 20u;  // bytes to print at a time

// Why there was no record.
void explain(const run::SnapshotSearch& search, const std::string& called) {
  const model::Missing missing = search.missing();
  if (missing.what != model::Missing::What::kCaptures) return complain_of({missing}, called);
  const auto reasons =
      analysis::why_no_snapshots(search.sessions(), search.epochs(), search.runs());
  for (const std::string& line : report::no_snapshots_lines(reasons)) complain(line);
}

// As they come, since a record is a kilobyte and there may be millions.
int print_json(run::SnapshotSearch& search, const std::string& called) {
  std::string piece = "[";
  bool first = true;
  search.each([&](const model::Epoch& epoch, const model::TensorStats&, std::string_view record) {
    piece += first ? "\n" : ",\n";
    first = false;
    report::append_tensor_json(piece, epoch, record);
    if (piece.size() < kPiece) return;
    print(piece);
    piece.clear();
  });
  const bool read = report_skipped(search.skipped());
  print(piece + "\n]\n");
  if (read && first) explain(search, called);
  return read ? 0 : 1;
}

void print_csv(const std::vector<analysis::TensorLine>& lines) {
  std::string piece = report::tensors_csv_header();
  for (const analysis::TensorLine& line : lines) {
    report::append_tensor_csv(piece, line);
    if (piece.size() < kPiece) continue;
    if (!print(piece)) return;
    piece.clear();
  }
  print(piece);
}

int print_table(run::SnapshotSearch& search, const std::string& called,
                const SnapshotsOptions& options) {
  analysis::TensorTable table;
  search.each([&](model::Epoch& epoch, const model::TensorStats& tensor, std::string_view) {
    table.add(epoch, tensor);
  });
  if (!report_skipped(search.skipped())) return 1;
  table.sort();
  if (table.lines().empty()) explain(search, called);
  if (options.csv) {
    print_csv(table.lines());
    return 0;
  }
  // Epochs or tensors that were named are shown whole.
  const bool shorten = !options.all && !options.query.epoch && options.query.tensor.empty();
  const std::size_t left_out =
      shorten && table.lines().size() > kReadable ? table.keep_newest() : 0;
  print(report::tensors_text(table.lines(), left_out));
  return 0;
}

int run_snapshots(const SnapshotsOptions& options) {
  std::optional<run::Place> place = find_records(options.directory);
  if (!place) return 1;
  const std::string called = place->called;
  run::DirectorySource source(*std::move(place));
  run::SnapshotSearch search(source, options.query);
  return options.json ? print_json(search, called) : print_table(search, called, options);
}

}  // namespace

Run declare_snapshots(CLI::App& app) {
  const auto options = std::make_shared<SnapshotsOptions>();
  run::SnapshotQuery& query = options->query;
  add_directory(app, options->directory, kDirectoryOrFile);
  app.add_option("--tensor", query.tensor, "Only tensors whose name fits, as 'layer*.weight'");
  app.add_option("--epoch", query.epoch, "Only the epoch of this number");
  auto* weights = app.add_flag_callback(
      "--weights", [options] { options->query.gradients = false; }, "No gradients");
  app.add_flag_callback(
         "--gradients", [options] { options->query.weights = false; }, "Only gradients")
      ->excludes(weights);
  add_choice(app, query.choice);
  app.add_flag("--all", options->all,
               "All epochs, also where only the newest of each tensor would be readable");
  auto* csv = app.add_flag("--csv", options->csv, "CSV instead of a table: all lines, all digits");
  app.add_flag("--json", options->json,
               "The records as JSON, histograms included, in the order in which they were written")
      ->excludes(csv);
  return [options] { return run_snapshots(*options); };
}

}  // namespace sonde::cli
