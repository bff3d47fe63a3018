// Reading back what Memory holds; memory.cpp fills it.
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "engine/base/id.h"
#include "engine/base/json_writer.h"
#include "engine/model/json_values.h"
#include "engine/model/trace.h"
#include "engine/record/names.h"
#include "engine/session/memory.h"
#include "engine/session/memory_rows.h"

namespace sonde::session {

void Memory::copy_all(model::Batch& out) const {
  copy_to(out);
  if (waiting_.empty()) return;
  std::unordered_set<base::Id, base::IdHash> copied;  // with their span, as marks that came late
  for (const model::Span& span : out.spans) copied.insert(span.id);
  for (const auto& [span, marks] : waiting_) {
    if (!copied.contains(span)) copy_marks(span, ClosedMarks(marks), out);
  }
}

void Memory::copy_marks(const base::Id& span, const ClosedMarks& marks, model::Batch& out) const {
  std::uint32_t points = marks.points, summaries = marks.summaries;
  std::uint32_t a = marks.first_point, b = marks.first_summary;
  while (points + summaries > 0) {
    const bool point = summaries == 0 || (points > 0 && mark_row(a).ts_ns <= mark_row(b).ts_ns);
    std::uint32_t& next = point ? a : b;
    const MarkRow& row = mark_row(next);
    next = row.next;
    --(point ? points : summaries);
    model::Mark& mark = out.marks.emplace_back();
    mark.id = row.id;
    mark.span_id = span;
    mark.name =
        row.name != 0 ? record::name_text(row.name) : out.arena.copy({row.text, row.name_length});
    mark.text = out.arena.copy({row.text + row.name_length, row.text_length});
    mark.ts_ns = row.ts_ns;
    mark.type = row.type;
    mark.summary = row.summary;
    if (row.type == model::ValueType::kFloat) {
      mark.real = row.real;
    } else {
      mark.integer = row.integer;
    }
  }
}

void Memory::copy_open_marks(const base::Id& span, model::Batch& out) const {
  if (waiting_.empty()) return;
  if (const auto found = waiting_.find(span); found != waiting_.end())
    copy_marks(span, ClosedMarks(found->second), out);
}

std::uint32_t Memory::count_open_marks(const base::Id& span) const {
  if (waiting_.empty()) return 0;
  const auto found = waiting_.find(span);
  return found == waiting_.end() ? 0 : found->second.count();
}

void Memory::mark_ids(const base::Id& span, std::vector<base::Id>& out) const {
  model::Batch marks;
  for (std::size_t i = count_; i-- > 0;) {
    const SpanRow& row = this->row(first_ + i);
    if (row.span.id() != span) continue;
    copy_marks(span, row.marks, marks);
    break;
  }
  copy_open_marks(span, marks);
  for (const model::Mark& mark : marks.marks) out.push_back(mark.id);
}

void Memory::add_marks(model::Span& span, const ClosedMarks& marks, model::Batch& out,
                       MarksAs how) const {
  span.mark_id_count = marks.count() + count_open_marks(span.id);
  if (span.mark_id_count == 0 || how == MarksAs::kCount) return;
  const std::size_t first = out.marks.size();
  copy_marks(span.id, marks, out);
  copy_open_marks(span.id, out);
  if (how == MarksAs::kMarks) return;
  base::JsonWriter json;
  model::write_marks(json, std::span(out.marks).subspan(first));
  out.marks.resize(first);
  span.first_mark_id = static_cast<std::uint32_t>(out.mark_lists.size());
  out.mark_lists.push_back(out.arena.copy(json.view()));
}

void Memory::add_open_marks(model::Span& span, model::Batch& out, MarksAs how) const {
  add_marks(span, {}, out, how);
}

void Memory::copy_to(model::Batch& out, MarksAs how) const {
  constexpr std::size_t kOpenScopes = 256;  // room for the open scopes that the caller appends
  out.spans.reserve(out.spans.size() + count_ + kOpenScopes);
  if (how == MarksAs::kMarks) out.marks.reserve(out.marks.size() + fresh_mark_);
  if (how == MarksAs::kText) out.mark_lists.reserve(count_);
  for (std::size_t i = 0; i < count_; ++i) {
    const SpanRow& row = this->row(first_ + i);
    model::Span& span = out.spans.emplace_back();
    row.span.unpack(span);
    span.name = row.name_is_interned ? record::name_text(row.name)
                                     : out.arena.copy({row.text, row.name_length()});
    span.attrs = out.arena.copy({row.text + row.name_length(), row.attrs_length});
    span.pid = pid_;
    span.rank = rank_;
    add_marks(span, row.marks, out, how);
  }
}

}  // namespace sonde::session
