#include "engine/cli/collect.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "engine/cli/output.h"
#include "engine/model/select.h"
#include "engine/spool/journal.h"

namespace sonde::cli {

void Collector::skipped(const base::Status& status) {
  constexpr std::size_t kSpoken = 20;
  if (++files_skipped_ <= kSpoken && !quiet_) complain("skipped: " + status.text());
}

bool Collector::report_skipped() const {
  if (files_skipped_ != 0) {
    complain(fmt::format("{} of {} files could not be read; the rest is shown", files_skipped_,
                         files_skipped_ + files_read_));
  }
  return files_read_ != 0 || files_skipped_ == 0;
}

// Read before the files: a record that is moved to the spool meanwhile is then seen twice, and
// dropped once, instead of not at all.
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

void Collector::each_batch(spool::Detail detail, bool journals_last,
                           const std::function<void(model::Batch&)>& take) {
  std::vector<model::Batch> journals;
  read_journals(journals);
  const auto take_journals = [&] {
    for (model::Batch& batch : journals) take(batch);
  };
  if (!journals_last) take_journals();
  model::Batch batch;
  for (const std::string& path : place_.files) {
    if (read_file(path, detail, batch)) take(batch);
  }
  if (journals_last) take_journals();
}

bool Collector::read_file(const std::string& path, spool::Detail detail, model::Batch& batch) {
  if (const base::Status status = reader_.read_file(path, batch, detail); !status.ok()) {
    if (status.error() != ENOENT) skipped(status);  // gone: evicted just now
    return false;
  }
  ++files_read_;
  if (!in_journal_.empty()) {
    std::erase_if(batch.spans,
                  [&](const model::Span& span) { return in_journal_.contains(span.id); });
    std::erase_if(batch.marks,
                  [&](const model::Mark& mark) { return in_journal_.contains(mark.id); });
  }
  return true;
}

void Trace::add(model::Batch& batch) {
  for (model::Span& span : batch.spans)
    span.first_mark_id += static_cast<std::uint32_t>(mark_ids.size());
  spans.insert(spans.end(), batch.spans.begin(), batch.spans.end());
  marks.insert(marks.end(), batch.marks.begin(), batch.marks.end());
  mark_ids.insert(mark_ids.end(), batch.mark_ids.begin(), batch.mark_ids.end());
  arenas.push_back(std::move(batch.arena));
}

Trace Collector::collect(const Filter& filter) {
  Trace trace;
  each_batch(spool::Detail::kAll, false, [&](model::Batch& batch) {
    filter(batch);
    trace.add(batch);
  });
  return trace;
}

namespace {

std::unordered_set<base::Id, base::IdHash> ids_of(const std::vector<model::Span>& spans) {
  std::unordered_set<base::Id, base::IdHash> ids;
  for (const model::Span& span : spans) ids.insert(span.id);
  return ids;
}

// When the file was sealed, by its name: nothing in it ended later. The far future for a name that
// does not tell.
std::int64_t sealed_ns(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  std::int64_t created = 0;
  const auto result =
      std::from_chars(name.data(), name.data() + std::min<std::size_t>(name.size(), 20), created);
  if (result.ec != std::errc() || result.ptr != name.data() + 20)
    return std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kClockSlack = 10'000'000'000;
  return created + kClockSlack;
}

// Whether a file sealed then may hold spans that belong to the last `count`, or marks of those.
bool may_matter(const Trace& trace, std::size_t count, std::int64_t sealed) {
  if (trace.spans.size() < count) return true;
  std::unordered_set<base::Id, base::IdHash> found;
  for (const model::Mark& mark : trace.marks) found.insert(mark.id);
  for (const model::Span& span : trace.spans) {
    if (!span.open() && span.end_ns < sealed) return true;
    for (std::uint32_t i = 0; i < span.mark_id_count; ++i) {
      if (span.start_ns < sealed && !found.contains(trace.mark_ids[span.first_mark_id + i]))
        return true;
    }
  }
  return false;
}

}  // namespace

Trace Collector::collect_last(std::size_t count, const Filter& filter) {
  Trace trace;
  std::vector<model::Batch> journals;
  read_journals(journals);
  for (model::Batch& batch : journals) {
    filter(batch);
    trace.add(batch);
  }
  trace.spans = model::select_last(trace.spans, count);
  model::Batch batch;
  for (auto path = place_.files.rbegin(); path != place_.files.rend(); ++path) {
    if (!may_matter(trace, count, sealed_ns(*path))) break;
    if (!read_file(*path, spool::Detail::kAll, batch)) continue;
    filter(batch);
    trace.add(batch);
    trace.spans = model::select_last(trace.spans, count);
    const std::unordered_set<base::Id, base::IdHash> wanted = ids_of(trace.spans);
    std::erase_if(trace.marks,
                  [&](const model::Mark& mark) { return !wanted.contains(mark.span_id); });
  }
  std::stable_sort(trace.marks.begin(), trace.marks.end(),
                   [](const model::Mark& a, const model::Mark& b) { return a.ts_ns < b.ts_ns; });
  return trace;
}

}  // namespace sonde::cli
