#include "engine/run/trace.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/id.h"
#include "engine/model/select.h"
#include "engine/model/trace.h"
#include "engine/run/reader.h"
#include "engine/run/selection.h"
#include "engine/run/source.h"

namespace sonde::run {

namespace {

using Ids = std::unordered_set<base::Id, base::IdHash>;
using Filter = std::function<void(model::Batch&)>;

template <typename Record>
Ids ids_of(const std::vector<Record>& records) {
  Ids ids;
  for (const Record& record : records) ids.insert(record.id);
  return ids;
}

// Whether a batch that was sealed at this time may hold some of the last `count` spans, or marks of
// them.
bool may_matter(const Trace& trace, std::size_t count, std::int64_t sealed) {
  if (trace.spans.size() < count) return true;
  const Ids found = ids_of(trace.marks);
  for (const model::Span& span : trace.spans) {
    if (!span.open() && span.end_ns < sealed) return true;
    for (std::uint32_t i = 0; i < span.mark_id_count; ++i) {
      if (span.start_ns < sealed && !found.contains(trace.mark_ids[span.first_mark_id + i]))
        return true;
    }
  }
  return false;
}

// Copies what the spans and marks of the trace point at, and frees the rest of what was read.
void free_the_rest(Trace& trace) {
  base::Arena text;
  std::vector<base::Id> mark_ids;
  for (model::Span& span : trace.spans) {
    span.name = text.copy(span.name);
    span.attrs = text.copy(span.attrs);
    const auto first = trace.mark_ids.begin() + span.first_mark_id;
    span.first_mark_id = static_cast<std::uint32_t>(mark_ids.size());
    mark_ids.insert(mark_ids.end(), first, first + span.mark_id_count);
  }
  for (model::Mark& mark : trace.marks) {
    mark.name = text.copy(mark.name);
    mark.attrs = text.copy(mark.attrs);
    mark.text = text.copy(mark.text);
  }
  trace.mark_ids = std::move(mark_ids);
  trace.arenas.clear();
  trace.arenas.push_back(std::move(text));
}

// Reads the journals, then the batches from the newest to the oldest, until no older one matters.
// Keeps only what may be wanted.
void read_last(Reader& reader, std::size_t count, const Filter& filter, Trace& trace) {
  const auto add = [&](model::Batch& batch) {
    filter(batch);
    trace.add(batch);
  };
  for (model::Batch& batch : reader.read_journals()) add(batch);
  trace.spans = model::select_last(trace.spans, count);
  model::Batch batch;
  const std::span<const std::string> batches = reader.source().batches();
  for (auto key = batches.rbegin(); key != batches.rend(); ++key) {
    if (!may_matter(trace, count, reader.source().sealed_ns(*key))) break;
    if (!reader.read_batch(*key, Detail::kSpansAndMarks, batch)) continue;
    add(batch);
    trace.spans = model::select_last(trace.spans, count);
    const Ids wanted = ids_of(trace.spans);
    std::erase_if(trace.marks,
                  [&](const model::Mark& mark) { return !wanted.contains(mark.span_id); });
    free_the_rest(trace);
  }
  std::stable_sort(trace.marks.begin(), trace.marks.end(),
                   [](const model::Mark& a, const model::Mark& b) { return a.ts_ns < b.ts_ns; });
}

// Keeps the spans of the chosen run, rank and name.
void select(Selection& selection, const std::string& name, Trace& trace) {
  if (selection.settle()) {
    selection.narrow(trace.spans);
  } else {
    trace.spans.clear();
  }
  trace.missing = selection.missing();
  if (name.empty()) return;
  std::vector<model::Span> selected = model::select_name(trace.spans, name);
  NameSearch names(name);
  if (selected.empty()) names.look(trace.spans);
  if (auto missing = names.missing()) trace.missing.push_back(*std::move(missing));
  trace.spans = std::move(selected);
}

}  // namespace

void Trace::add(model::Batch& batch) {
  for (model::Span& span : batch.spans)
    span.first_mark_id += static_cast<std::uint32_t>(mark_ids.size());
  spans.insert(spans.end(), batch.spans.begin(), batch.spans.end());
  marks.insert(marks.end(), batch.marks.begin(), batch.marks.end());
  mark_ids.insert(mark_ids.end(), batch.mark_ids.begin(), batch.mark_ids.end());
  arenas.push_back(std::move(batch.arena));
}

Trace read_trace(Source& source, const TraceQuery& query) {
  Selection selection(query.choice);
  Reader reader(source);
  Trace trace;
  const auto filter = [&](model::Batch& batch) {
    selection.look(batch.spans);
    selection.narrow(batch.spans);
  };
  // Reading from the end sees only some of the runs, and not all spans below a name.
  trace.all_runs = !query.last || !query.choice.name.empty() || selection.wants_run();
  if (trace.all_runs) {
    reader.each_batch(Detail::kSpansAndMarks, Reader::Order::kJournalsFirst,
                      [&](model::Batch& batch) {
                        filter(batch);
                        trace.add(batch);
                      });
  } else {
    read_last(reader, *query.last, filter, trace);
  }
  trace.spans_read = trace.spans.size();
  trace.skipped = reader.skipped();
  select(selection, query.choice.name, trace);
  if (query.last && trace.all_runs) trace.spans = model::select_last(trace.spans, *query.last);
  trace.runs = selection.take_runs();
  return trace;
}

Stream stream_spans(Source& source, const Choice& choice,
                    const std::function<void(const std::vector<model::Span>&)>& take) {
  constexpr auto kOrder = Reader::Order::kJournalsLast;
  Selection selection(choice);
  Stream result;
  // The run of a span is known only once all spans were seen: choosing a run takes a pass of its
  // own.
  if (selection.wants_run()) {
    Reader ahead(source);
    ahead.each_batch(Detail::kTimings, kOrder,
                     [&](model::Batch& batch) { selection.look(batch.spans); });
    if (!selection.settle()) {
      result.skipped = ahead.skipped();
      result.missing = selection.missing();
      result.runs = selection.take_runs();
      return result;
    }
  }
  Reader reader(source);
  NameSearch names(choice.name);
  reader.each_batch(Detail::kTimings, kOrder, [&](model::Batch& batch) {
    if (!selection.wants_run()) selection.look(batch.spans);
    selection.narrow(batch.spans);
    names.look(batch.spans);
    take(batch.spans);
  });
  if (!selection.wants_run()) selection.settle();
  result.chosen_runs = selection.wants_run() ? 1 : selection.runs().count(choice.rank);
  result.skipped = reader.skipped();
  result.missing = selection.missing();
  if (auto missing = names.missing()) result.missing.push_back(*std::move(missing));
  result.runs = selection.take_runs();
  return result;
}

}  // namespace sonde::run
