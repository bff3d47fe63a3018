#include "engine/cli/collect.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/cli/output.h"
#include "engine/spool/journal.h"

namespace sonde::cli {

void Collector::skipped(const base::Status& status) {
  constexpr std::size_t kSpoken = 20;
  if (++files_skipped_ <= kSpoken) complain("skipped: " + status.text());
}

bool Collector::report_skipped() const {
  if (files_skipped_ != 0) {
    complain(fmt::format("{} of {} files could not be read; the rest is shown", files_skipped_,
                         files_skipped_ + files_read_));
  }
  return files_read_ != 0 || files_skipped_ == 0;
}

// Read before the files: a record that is moved to the spool meanwhile is then seen twice, and dropped
// once, instead of not at all.
void Collector::read_journals(std::vector<model::Batch>& out) {
  for (const std::string& path : place_.journals) {
    spool::JournalReport report;
    const base::Status status = spool::inspect_journal(path, report);
    if (!status.ok()) {
      if (status.error() != ENOENT) skipped(status);  // gone: its process ended just now
      continue;
    }
    ++files_read_;
    for (const spool::OpenScopeView& open : report.open) report.records.spans.push_back(open.span);
    for (const model::Span& span : report.records.spans) in_journal_.insert(span.id);
    for (const model::Mark& mark : report.records.marks) in_journal_.insert(mark.id);
    out.push_back(std::move(report.records));
  }
}

void Collector::each_batch(spool::Detail detail, bool journals_last, const std::function<void(model::Batch&)>& take) {
  std::vector<model::Batch> journals;
  read_journals(journals);
  const auto take_journals = [&] {
    for (model::Batch& batch : journals) take(batch);
  };
  if (!journals_last) take_journals();
  spool::Reader reader;
  model::Batch batch;
  for (const std::string& path : place_.files) {
    if (const base::Status status = reader.read_file(path, batch, detail); !status.ok()) {
      if (status.error() != ENOENT) skipped(status);  // gone: evicted just now
      continue;
    }
    ++files_read_;
    if (!in_journal_.empty()) {
      std::erase_if(batch.spans, [&](const model::Span& span) { return in_journal_.contains(span.id); });
      std::erase_if(batch.marks, [&](const model::Mark& mark) { return in_journal_.contains(mark.id); });
    }
    take(batch);
  }
  if (journals_last) take_journals();
}

Trace Collector::collect(std::optional<int> rank) {
  Trace trace;
  each_batch(spool::Detail::kAll, false, [&](model::Batch& batch) {
    if (rank) std::erase_if(batch.spans, [&](const model::Span& span) { return span.rank != *rank; });
    trace.spans.insert(trace.spans.end(), batch.spans.begin(), batch.spans.end());
    trace.marks.insert(trace.marks.end(), batch.marks.begin(), batch.marks.end());
    trace.arenas.push_back(std::move(batch.arena));
  });
  return trace;
}

}  // namespace sonde::cli
