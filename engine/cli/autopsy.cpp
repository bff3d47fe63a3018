// sonde autopsy DIR: what dead processes left, and its recovery into the spool.
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "engine/base/clock.h"
#include "engine/cli/command.h"
#include "engine/cli/locate.h"
#include "engine/cli/output.h"
#include "engine/cli/process_state.h"
#include "engine/model/ending.h"
#include "engine/report/autopsy.h"
#include "engine/spool/journal.h"
#include "engine/spool/reader.h"

namespace sonde::cli {

namespace {

constexpr std::size_t kShown = 10;        // last spans and marks per process
constexpr std::size_t kNewestFiles = 64;  // looked at for what the journal no longer has

struct AutopsyOptions {
  std::string directory = ".cirron";
  bool json = false;
  bool keep = false;
};

class Examination {
 public:
  Examination(const Place& place, bool keep) : place_(place) {
    result_.directory = place.output_dir;
    result_.now_ns = base::wall_clock_ns();
    result_.kept = keep;
  }

  const report::Autopsy& run() {
    for (const std::string& path : place_.journals) examine(path);
    read_spool();
    if (!result_.kept) recover();
    return result_;
  }

 private:
  void examine(const std::string& path);
  void read_spool();
  void add_from_spool(const model::Batch& batch);
  void add_recovered(const model::Batch& batch);
  void add_ended(const model::Batch& batch);
  void recover();

  const Place& place_;
  report::Autopsy result_;
  std::vector<std::string> paths_;  // of the first processes of the result: those with a journal
  std::deque<spool::JournalReport> journals_;  // what the spans and marks of the result point into
  std::deque<model::Batch> batches_;           // likewise
};

void Examination::examine(const std::string& path) {
  spool::JournalReport& journal = journals_.emplace_back();
  const base::Status status = spool::inspect_journal(path, journal);
  if (status.ok()) {
    result_.processes.push_back(process_state(journal));
    paths_.push_back(path);
  } else if (status.error() !=
             ENOENT) {  // gone: its process ended, or somebody recovered it, just now
    result_.problems.push_back(status.text());
  }
}

bool is_death(const model::Span& span) { return span.closed_by() == "death"; }

// The newest spans, their marks, and the newest of the other marks: those are on scopes still open.
void shorten(report::ProcessState& process) {
  const auto keep_last = [](auto& items, auto time_of) {
    std::stable_sort(items.begin(), items.end(),
                     [&](const auto& a, const auto& b) { return time_of(a) < time_of(b); });
    if (items.size() > kShown) items.erase(items.begin(), items.end() - kShown);
  };
  keep_last(process.last_spans, [](const model::Span& span) { return span.end_ns; });
  const auto is_shown = [&](const model::Mark& mark) {
    return std::any_of(process.last_spans.begin(), process.last_spans.end(),
                       [&](const model::Span& span) { return span.id == mark.span_id; });
  };
  const auto others =
      std::stable_partition(process.last_marks.begin(), process.last_marks.end(), is_shown);
  std::vector<model::Mark> newest(others, process.last_marks.end());
  process.last_marks.erase(others, process.last_marks.end());
  keep_last(newest, [](const model::Mark& mark) { return mark.ts_ns; });
  process.last_marks.insert(process.last_marks.end(), newest.begin(), newest.end());
}

// The newest files first, so as to stop early: the last moments are at the end of the spool.
void Examination::read_spool() {
  spool::Reader reader;
  std::size_t left = kNewestFiles;
  for (auto path = place_.files.rbegin(); path != place_.files.rend() && left > 0; ++path, --left) {
    model::Batch& batch = batches_.emplace_back();
    if (!reader.read_file(*path, batch).ok()) continue;
    add_from_spool(batch);
    add_recovered(batch);
    add_ended(batch);
  }
  std::ranges::sort(result_.ended, {}, &model::Span::end_ns);
  for (report::ProcessState& process : result_.processes) shorten(process);
}

void Examination::add_from_spool(const model::Batch& batch) {
  for (report::ProcessState& process : result_.processes) {
    if (process.fate == report::Fate::kRecovered || process.last_spans.size() >= kShown) continue;
    const auto known = [&](const model::Span& span) {
      return std::any_of(process.last_spans.begin(), process.last_spans.end(),
                         [&](const model::Span& other) { return other.id == span.id; });
    };
    std::vector<model::Span> more;
    for (const model::Span& span : batch.spans) {
      if (span.pid == process.pid && span.end_ns >= process.started_ns && !known(span))
        more.push_back(span);
    }
    process.last_spans.insert(process.last_spans.end(), more.begin(), more.end());
    if (!more.empty())
      process.last_marks.insert(process.last_marks.end(), batch.marks.begin(), batch.marks.end());
  }
}

// Deaths that an earlier autopsy, or the next run in this directory, has already moved: all that is
// left of them is the spans that were closed in their name.
void Examination::add_recovered(const model::Batch& batch) {
  std::map<std::int32_t, std::vector<model::Span>> open_of_pid;
  for (const model::Span& span : batch.spans) {
    if (is_death(span)) open_of_pid[span.pid].push_back(span);
  }
  for (auto& [pid, spans] : open_of_pid) {
    report::ProcessState process;
    process.pid = pid;
    process.rank = spans.front().rank;
    process.fate = report::Fate::kRecovered;
    process.last_sign_ns = spans.front().end_ns;
    const auto place = [](const model::Span& span) {  // the session first, then thread by thread
                                                      // from the outside in
      return std::tuple(static_cast<bool>(span.parent_id), span.thread_id, span.start_ns);
    };
    std::stable_sort(spans.begin(), spans.end(),
                     [&](const auto& a, const auto& b) { return place(a) < place(b); });
    for (const model::Span& span : spans) {
      process.open.push_back(
          {span, 0, static_cast<std::uint32_t>(span.thread_id), false, !span.parent_id});
    }
    for (const model::Span& span : batch.spans) {
      if (span.pid == pid && !is_death(span)) process.last_spans.push_back(span);
    }
    process.last_marks = batch.marks;
    result_.processes.push_back(std::move(process));
  }
}

// From the newest file back, until there are enough.
void Examination::add_ended(const model::Batch& batch) {
  for (const model::Span& span : batch.spans) {
    const bool session = !span.parent_id && !model::attr(span, model::kEndedByAttr).empty();
    if (session && !is_death(span) && result_.ended.size() < kShown) result_.ended.push_back(span);
  }
}

void Examination::recover() {
  const spool::Recovery recovery = spool::recover_directory(place_.output_dir);
  result_.moved_journals = recovery.journals;
  result_.moved_spans = recovery.spans;
  result_.moved_marks = recovery.marks;
  result_.moved_scopes = recovery.open_scopes;
  result_.moved_files = recovery.files;
  for (std::size_t i = 0; i < paths_.size(); ++i)
    result_.processes[i].moved = ::access(paths_[i].c_str(), F_OK) != 0;
  for (const std::string& problem : recovery.problems) {
    if (std::find(result_.problems.begin(), result_.problems.end(), problem) ==
        result_.problems.end()) {
      result_.problems.push_back(problem);
    }
  }
}

int run(const AutopsyOptions& options) {
  Place place;
  if (!locate_or_complain(options.directory, place)) return 1;
  if (place.output_dir.empty()) {
    complain(options.directory +
             " is a file; name the output directory of the run, by default .cirron");
    return 1;
  }
  Examination examination(place, options.keep);
  const report::Autopsy& autopsy = examination.run();
  for (const std::string& problem : autopsy.problems) complain(problem);
  print(options.json ? report::autopsy_json(autopsy) : report::autopsy_text(autopsy));
  return autopsy.problems.empty() ? 0 : 1;
}

}  // namespace

Run declare_autopsy(CLI::App& app) {
  const auto options = std::make_shared<AutopsyOptions>();
  app.add_option("DIR", options->directory, "Output directory of a run")->capture_default_str();
  app.add_flag("--json", options->json, "JSON instead of text");
  app.add_flag("--keep", options->keep, "Only look: move nothing into the spool");
  return [options] { return run(*options); };
}

}  // namespace sonde::cli
