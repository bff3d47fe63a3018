// sonde snapshots DIR: what the weights and gradients of a recorded run looked like.
#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <fnmatch.h>

#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/analysis/no_snapshots.h"
#include "engine/analysis/tensors.h"
#include "engine/cli/collect.h"
#include "engine/cli/command.h"
#include "engine/cli/locate.h"
#include "engine/cli/output.h"
#include "engine/cli/selection.h"
#include "engine/report/tensors.h"

namespace sonde::cli {

namespace {

struct SnapshotsOptions {
  std::string directory = ".cirron";
  Choice choice;
  std::string tensor;
  std::optional<std::int64_t> epoch;
  bool gradients = false;
  bool weights = false;
  bool all = false;
  bool json = false;
  bool csv = false;
};

constexpr std::size_t kReadable = 40;      // lines
constexpr std::size_t kPiece = 1u << 20u;  // bytes to print at a time

// Reads a place twice: a record does not say its epoch's number, and the span that does may be in
// any file. Only epochs, and what `take` keeps, are held meanwhile.
class Search {
 public:
  Search(const Place& place, const SnapshotsOptions& options)
      : place_(place), options_(options), selection_(options.choice) {}

  using Take =
      std::function<void(analysis::Epoch&, const model::TensorStats&, std::string_view record)>;
  // Calls `take` with every record that is wanted. False when nothing could be read.
  bool each(const Take& take);
  // One line on standard error about why there was none.
  void explain() const;

 private:
  bool find_epochs();
  void explain_nothing() const;
  analysis::Epoch* epoch_of(const base::Id& id);
  bool wanted(const analysis::Epoch& epoch, const model::TensorStats& tensor);

  const Place& place_;
  const SnapshotsOptions& options_;
  Selection selection_;
  std::optional<analysis::Epochs> epochs_;
  std::vector<model::Span> epoch_spans_, sessions_;
  std::deque<std::string> texts_;  // their attributes
  bool run_is_there_ = true;
  // Of the runs and ranks that are wanted.
  std::set<std::string, std::less<>> names_;
  std::set<std::int64_t> indexes_;
};

bool Search::find_epochs() {
  Collector collector(place_, true);
  collector.each_batch(spool::Detail::kTimings, false, [&](model::Batch& batch) {
    selection_.look(batch.spans);
    for (model::Span span : batch.spans) {  // whose text goes with the batch
      const bool epoch = span.name == analysis::kEpochName;
      if (!epoch && (span.parent_id || span.name != model::kSessionName)) continue;
      span.name = epoch ? analysis::kEpochName : model::kSessionName;
      span.attrs = texts_.emplace_back(span.attrs);
      (epoch ? epoch_spans_ : sessions_).push_back(span);
    }
  });
  if (!selection_.settle(options_.directory)) return false;
  selection_.narrow(epoch_spans_);
  selection_.narrow(sessions_);
  epochs_.emplace(epoch_spans_, selection_.runs());
  return true;
}

// Null for the epoch of another run or rank, which is not told from one that is unknown.
analysis::Epoch* Search::epoch_of(const base::Id& id) {
  if (analysis::Epoch* found = epochs_->find(id)) return found;
  return selection_.wants_run() || options_.choice.rank ? nullptr : &epochs_->unknown(id);
}

bool Search::wanted(const analysis::Epoch& epoch, const model::TensorStats& tensor) {
  auto name = names_.find(tensor.name);
  if (name == names_.end()) name = names_.emplace(tensor.name).first;
  if (epoch.index != model::kNone) indexes_.insert(epoch.index);
  if (options_.epoch && epoch.index != *options_.epoch) return false;
  if (tensor.gradient() ? options_.weights : options_.gradients) return false;
  return options_.tensor.empty() || ::fnmatch(options_.tensor.c_str(), name->c_str(), 0) == 0;
}

bool Search::each(const Take& take) {
  run_is_there_ = find_epochs();
  Collector collector(place_);
  collector.each_batch(spool::Detail::kTensors, false, [&](model::Batch& batch) {
    if (!run_is_there_) return;
    for (std::size_t i = 0; i < batch.tensors.size(); ++i) {
      analysis::Epoch* epoch = epoch_of(batch.snapshots[i].span_id);
      if (epoch != nullptr && wanted(*epoch, batch.tensors[i]))
        take(*epoch, batch.tensors[i], batch.snapshots[i].json);
    }
  });
  return collector.report_skipped();
}

// Of each session; those with the same reason together.
void Search::explain_nothing() const {
  if (sessions_.empty()) {
    complain(
        "nothing was captured; no session is here that could say why: name the directory of "
        "the whole run");
    return;
  }
  std::map<std::string, std::set<std::string, std::less<>>> who;
  for (const auto& why : analysis::why_no_snapshots(sessions_, epoch_spans_, selection_.runs()))
    who[report::no_snapshots_line(why)].insert(fmt::format("run {} rank {}", why.run, why.rank));
  for (const auto& [line, sessions] : who) {
    complain(who.size() == 1
                 ? "nothing was captured: " + line
                 : fmt::format("nothing was captured of {}: {}", some_of(sessions), line));
  }
}

void Search::explain() const {
  if (!run_is_there_) return;  // said already
  if (options_.choice.rank && !selection_.has_rank(*options_.choice.rank)) {
    selection_.explain_rank();
  } else if (names_.empty()) {
    explain_nothing();
  } else if (options_.epoch && !indexes_.contains(*options_.epoch)) {
    complain(fmt::format("nothing was captured of epoch {}; there are: {}", *options_.epoch,
                         some_of(indexes_)));
  } else if (!options_.tensor.empty()) {
    complain(fmt::format("no tensor that is wanted fits {}; there are: {}", options_.tensor,
                         some_of(names_)));
  } else {
    complain(fmt::format("there are only {}", options_.gradients ? "weights" : "gradients"));
  }
}

// As they come, since a record is a kilobyte and there may be millions.
int print_json(Search& search) {
  std::string piece = "[";
  bool first = true;
  const bool read = search.each(
      [&](const analysis::Epoch& epoch, const model::TensorStats&, std::string_view record) {
        piece += first ? "\n" : ",\n";
        first = false;
        report::append_tensor_json(piece, epoch, record);
        if (piece.size() < kPiece) return;
        print(piece);
        piece.clear();
      });
  print(piece + "\n]\n");
  if (read && first) search.explain();
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

int print_table(Search& search, const SnapshotsOptions& options) {
  analysis::TensorTable table;
  const bool read = search.each([&](analysis::Epoch& epoch, const model::TensorStats& tensor,
                                    std::string_view) { table.add(epoch, tensor); });
  if (!read) return 1;
  table.sort();
  if (table.lines().empty()) search.explain();
  if (options.csv) {
    print_csv(table.lines());
    return 0;
  }
  // Who names epochs or tensors wants to see them.
  const bool shorten = !options.all && !options.epoch && options.tensor.empty();
  const std::size_t left_out =
      shorten && table.lines().size() > kReadable ? table.keep_newest() : 0;
  print(report::tensors_text(table.lines(), left_out));
  return 0;
}

int run(const SnapshotsOptions& options) {
  Place place;
  if (!locate_with_records(options.directory, place)) return 1;
  Search search(place, options);
  return options.json ? print_json(search) : print_table(search, options);
}

}  // namespace

Run declare_snapshots(CLI::App& app) {
  const auto options = std::make_shared<SnapshotsOptions>();
  app.add_option("DIR", options->directory,
                 "Output directory of a run, its spool, or one spool file")
      ->capture_default_str();
  app.add_option("--tensor", options->tensor, "Only tensors whose name fits, as 'layer*.weight'");
  app.add_option("--epoch", options->epoch, "Only the epoch of this number");
  auto* weights = app.add_flag("--weights", options->weights, "No gradients");
  app.add_flag("--gradients", options->gradients, "Only gradients")->excludes(weights);
  app.add_option("--rank", options->choice.rank, "Only this rank");
  app.add_option("--run", options->choice.run, "Only this run: its number, or last")
      ->check(CLI::Range(1, std::numeric_limits<int>::max()) | CLI::IsMember({"last"}));
  app.add_flag("--all", options->all,
               "All epochs, also where only the newest of each tensor would be readable");
  auto* csv = app.add_flag("--csv", options->csv, "CSV instead of a table: all lines, all digits");
  app.add_flag("--json", options->json,
               "The records as JSON, histograms included, in the order in which they were written")
      ->excludes(csv);
  return [options] { return run(*options); };
}

}  // namespace sonde::cli
