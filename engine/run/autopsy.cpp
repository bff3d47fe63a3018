#include "engine/run/autopsy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/base/attr_names.h"
#include "engine/base/clock.h"
#include "engine/base/id.h"
#include "engine/base/status.h"
#include "engine/model/ending.h"
#include "engine/model/process.h"
#include "engine/model/trace.h"
#include "engine/run/session_finder.h"
#include "engine/run/source.h"

namespace sonde::run {

namespace {

using model::Fate;
using model::ProcessState;

using Ids = std::unordered_set<base::Id, base::IdHash>;

constexpr std::size_t kNewestBatches = 64;  // looked at for what the journal no longer has

class Examination {
 public:
  Examination(Source& source, const AutopsyOptions& options)
      : source_(source), last_(options.last) {
    result_.source = source.name();
    result_.now_ns = base::wall_clock_ns();
    result_.kept = options.keep;
  }

  model::Autopsy perform() {
    for (const std::string& key : source_.processes()) examine(key);
    refresh();  // what was stored meanwhile is in no journal and in no listed batch
    read_batches();
    if (!result_.kept) recover();
    return std::move(result_);
  }

 private:
  // True if the status is ok. What is gone by now is not a problem.
  bool note(const base::Status& status);
  void examine(const std::string& key);
  void refresh();
  bool has_open(const base::Id& span) const;
  void know(const model::Batch& batch);
  bool is_of(const model::Span& span, std::size_t process) const;
  void read_batches();
  void add_from(const model::Batch& batch);
  void add_recovered(const model::Batch& batch);
  void add_ended(const model::Batch& batch);
  void recover();

  void shorten(ProcessState& process) const;

  Source& source_;
  std::size_t last_;  // AutopsyOptions::last
  model::Autopsy result_;
  // Keys of the processes that have a journal; these come first in result_.processes.
  std::vector<std::string> keys_;
  std::vector<base::Id> sessions_;  // null: not known
  std::vector<Ids> known_;          // their last spans
  SessionFinder finder_;
};

// The session of a process, and all spans that its journal has; null if the session is not there.
base::Id know_journal(const Process& process, SessionFinder& finder) {
  base::Id session;
  for (const model::OpenScope& open : process.state.open) {
    finder.know(open.span);
    if (open.session) session = open.span.id;
  }
  for (const model::Span& span : process.records.spans) {
    finder.know(span);
    if (span.is_session()) session = span.id;
  }
  return session;
}

bool Examination::note(const base::Status& status) {
  if (!status.ok() && trouble_of(status) != Trouble::kGone)
    result_.problems.push_back(status.text());
  return status.ok();
}

// One that is gone has ended, or was recovered, just now.
void Examination::examine(const std::string& key) {
  Process process;
  if (!note(source_.inspect(key, process))) return;
  sessions_.push_back(know_journal(process, finder_));
  Ids& known = known_.emplace_back();
  for (const model::Span& span : process.records.spans) known.insert(span.id);
  process.state.last_spans = std::move(process.records.spans);
  process.state.last_marks = std::move(process.records.marks);
  result_.processes.push_back(std::move(process.state));
  result_.arenas.push_back(std::move(process.records.arena));
  keys_.push_back(key);
}

void Examination::refresh() {
  if (!source_.processes().empty()) note(source_.refresh());
}

// Whether a process that was examined had this span open.
bool Examination::has_open(const base::Id& span) const {
  const auto in = [&](const ProcessState& process) {
    return std::any_of(process.open.begin(), process.open.end(),
                       [&](const model::OpenScope& open) { return open.span.id == span; });
  };
  const auto end = result_.processes.begin() + static_cast<std::ptrdiff_t>(keys_.size());
  return std::any_of(result_.processes.begin(), end, in);
}

bool is_death(const model::Span& span) { return span.closed_by() == base::kClosedByDeath; }

// Keeps the newest spans with their marks, and the newest of all other marks. Those other marks are
// on open scopes, or on spans that closed earlier.
void Examination::shorten(ProcessState& process) const {
  const auto keep_last = [this](auto& items, auto time_of) {
    std::stable_sort(items.begin(), items.end(),
                     [&](const auto& a, const auto& b) { return time_of(a) < time_of(b); });
    if (items.size() > last_)
      items.erase(items.begin(), items.end() - static_cast<std::ptrdiff_t>(last_));
  };
  std::vector<model::Span> known = process.last_spans;
  keep_last(process.last_spans, [](const model::Span& span) { return span.end_ns; });
  Ids kept, marked;
  for (const model::Span& span : process.last_spans) kept.insert(span.id);
  const auto is_kept = [&](const model::Mark& mark) { return kept.contains(mark.span_id); };
  const auto others =
      std::stable_partition(process.last_marks.begin(), process.last_marks.end(), is_kept);
  std::vector<model::Mark> newest(others, process.last_marks.end());
  process.last_marks.erase(others, process.last_marks.end());
  keep_last(newest, [](const model::Mark& mark) { return mark.ts_ns; });
  for (const model::Mark& mark : newest) marked.insert(mark.span_id);
  std::erase_if(known, [&](const model::Span& span) { return !marked.contains(span.id); });
  process.marked_spans = std::move(known);
  process.last_marks.insert(process.last_marks.end(), newest.begin(), newest.end());
}

// Reads the newest first: the last moments of a process are at the end. One that cannot be read is
// named and skipped.
void Examination::read_batches() {
  const std::span<const std::string> keys = source_.batches();
  const std::size_t count = std::min(keys.size(), kNewestBatches);
  for (std::size_t i = 1; i <= count; ++i) {
    model::Batch batch;
    if (!note(source_.read(keys[keys.size() - i], Detail::kSpansAndMarks, batch))) continue;
    know(batch);
    add_from(batch);
    add_recovered(batch);
    add_ended(batch);
    result_.arenas.push_back(std::move(batch.arena));
  }
  std::ranges::sort(result_.ended, {},
                    [](const model::EndedProcess& one) { return one.session.end_ns; });
  for (ProcessState& process : result_.processes) shorten(process);
}

// The parents of a span are in the same batch or in a newer one, which was read before.
void Examination::know(const model::Batch& batch) {
  const auto end = result_.processes.begin() + static_cast<std::ptrdiff_t>(keys_.size());
  const bool wanted = std::any_of(
      result_.processes.begin(), end,
      [this](const ProcessState& process) { return process.last_spans.size() < last_; });
  if (!wanted) return;
  for (const model::Span& span : batch.spans) finder_.know(span);
}

bool Examination::is_of(const model::Span& span, std::size_t process) const {
  const ProcessState& state = result_.processes[process];
  if (span.pid != state.pid || span.rank != state.rank || span.end_ns < state.started_ns)
    return false;
  const base::Id session = finder_.session_of(span);
  return !session || !sessions_[process] || session == sessions_[process];
}

void Examination::add_from(const model::Batch& batch) {
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    ProcessState& process = result_.processes[i];
    const std::size_t before = process.last_spans.size();
    if (before >= last_) continue;
    for (const model::Span& span : batch.spans) {
      if (is_of(span, i) && known_[i].insert(span.id).second) process.last_spans.push_back(span);
    }
    if (process.last_spans.size() != before)
      process.last_marks.insert(process.last_marks.end(), batch.marks.begin(), batch.marks.end());
  }
}

// A process that an earlier recovery has moved into this batch. `open`: the spans that the recovery
// closed.
ProcessState recovered_process(std::vector<model::Span> open, const model::Batch& batch) {
  ProcessState process;
  process.pid = open.front().pid;
  process.rank = open.front().rank;
  process.fate = Fate::kRecovered;
  process.last_sign_ns = open.front().end_ns;
  // The session first, then thread by thread, outermost first.
  const auto place = [](const model::Span& span) {
    return std::tuple(static_cast<bool>(span.parent_id), span.thread_id, span.start_ns);
  };
  std::stable_sort(open.begin(), open.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  for (const model::Span& span : open) {
    const auto lane = static_cast<std::uint32_t>(span.thread_id);
    process.open.push_back({span, 0, lane, false, !span.parent_id});
  }
  for (const model::Span& span : batch.spans) {
    if (span.pid == process.pid && span.rank == process.rank && !is_death(span))
      process.last_spans.push_back(span);
  }
  process.last_marks = batch.marks;
  return process;
}

// Deaths that an earlier autopsy, or the next run in this directory, has already moved. One that
// was moved since its journal was examined is known already.
void Examination::add_recovered(const model::Batch& batch) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<model::Span>> open_of;
  for (const model::Span& span : batch.spans) {
    if (is_death(span) && !has_open(span.id)) open_of[{span.rank, span.pid}].push_back(span);
  }
  for (auto& [process, spans] : open_of)
    result_.processes.push_back(recovered_process(std::move(spans), batch));
}

// Batches come newest first; takes sessions until there are enough.
void Examination::add_ended(const model::Batch& batch) {
  for (const model::Span& span : batch.spans) {
    const bool ended = span.is_session() && span.attr(base::kEndedByAttr);
    if (ended && !is_death(span) && result_.ended.size() < last_)
      result_.ended.push_back({span, model::ending_of(span)});
  }
}

void Examination::recover() {
  result_.moved = source_.recover();
  if (source_.refresh().ok()) {
    const std::span<const std::string> left = source_.processes();
    for (std::size_t i = 0; i < keys_.size(); ++i)
      result_.processes[i].moved = std::find(left.begin(), left.end(), keys_[i]) == left.end();
  }
  for (const std::string& problem : result_.moved.problems) {
    if (std::find(result_.problems.begin(), result_.problems.end(), problem) ==
        result_.problems.end()) {
      result_.problems.push_back(problem);
    }
  }
}

}  // namespace

model::Autopsy perform_autopsy(Source& source, const AutopsyOptions& options) {
  return Examination(source, options).perform();
}

model::RunningProcesses running_processes(Source& source) {
  model::RunningProcesses out;
  out.now_ns = base::wall_clock_ns();
  for (const std::string& key : source.processes()) {
    Process process;
    const base::Status status = source.inspect(key, process);
    if (!status.ok() && trouble_of(status) != Trouble::kGone) out.problems.push_back(status.text());
    if (!status.ok() || process.state.fate != Fate::kRunning) continue;
    out.processes.push_back(std::move(process.state));
    out.arenas.push_back(std::move(process.records.arena));
  }
  return out;
}

}  // namespace sonde::run
