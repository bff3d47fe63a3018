#include "engine/session/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unordered_set>

#include "engine/base/json_writer.h"
#include "engine/model/json_values.h"
#include "engine/record/names.h"

namespace sonde::session {

namespace {

constexpr std::size_t kRowsPerChunk = 1024;
constexpr std::size_t kMaxWaiting = 1u << 16;

// Text a row owns: name (unless it is interned) and attributes, in one allocation.
char* keep(std::string_view a, std::string_view b) {
  if (a.empty() && b.empty()) return nullptr;
  auto* text = static_cast<char*>(std::malloc(a.size() + b.size()));
  if (text == nullptr) return nullptr;
  if (!a.empty()) std::memcpy(text, a.data(), a.size());
  if (!b.empty()) std::memcpy(text + a.size(), b.data(), b.size());
  return text;
}

}  // namespace

struct Memory::Row {
  base::Id id, parent_id;
  std::int64_t start_ns, end_ns, index, gpu_ns, memory_peak_bytes;
  std::uint64_t thread_id;
  char* text = nullptr;    // owned
  std::uint32_t name = 0;  // interned id; 0: the first name_length bytes of text
  std::uint32_t name_length = 0, attrs_length = 0;
  ClosedMarks marks;
  ~Row() { std::free(text); }
};

struct Memory::MarkRow {
  base::Id id;
  std::int64_t ts_ns;
  union {
    double real;
    std::int64_t integer;
  };
  char* text = nullptr;  // owned: name unless interned, then the value
  std::uint32_t name = 0;
  std::uint32_t next = kNil;
  std::uint16_t name_length = 0, text_length = 0;  // a record's text is shorter than 64 KiB
  model::ValueType type;
  bool summary;
  ~MarkRow() { std::free(text); }
};

Memory::Memory() = default;
Memory::~Memory() = default;

void Memory::set_capacity(std::uint32_t spans) {
  const std::uint32_t wanted = std::max<std::uint32_t>(1, spans);
  if (wanted == capacity_) return;
  model::Batch kept;
  copy_all(kept);
  clear();
  capacity_ = wanted;
  add(kept);
}

void Memory::copy_all(model::Batch& out) const {
  copy_to(out);
  if (waiting_.empty()) return;
  std::unordered_set<base::Id, base::IdHash> copied;  // with their span, as marks that came late
  for (const model::Span& span : out.spans) copied.insert(span.id);
  for (const auto& [span, marks] : waiting_) {
    if (!copied.contains(span)) copy_marks(span, ClosedMarks(marks), out);
  }
}

void Memory::clear() {
  chunks_.clear();
  mark_chunks_.clear();
  waiting_.clear();
  first_ = count_ = 0;
  free_mark_ = kNil;
  fresh_mark_ = 0;
}

Memory::Row& Memory::row(std::size_t position) const {
  const std::size_t at = position % (chunks_.size() * kRowsPerChunk);
  return chunks_[at / kRowsPerChunk][at % kRowsPerChunk];
}

Memory::MarkRow& Memory::mark_row(std::uint32_t number) const {
  return mark_chunks_[number / kRowsPerChunk][number % kRowsPerChunk];
}

void Memory::add(const model::Batch& batch) {
  for (const model::Mark& mark : batch.marks) add_mark(mark);
  for (const model::Span& span : batch.spans) add_span(span);
}

void Memory::add_span(const model::Span& span) {
  if (count_ == capacity_) evict_oldest();
  if (chunks_.empty()) chunks_.resize(capacity_ / kRowsPerChunk + 1);
  auto& chunk = chunks_[(first_ + count_) / kRowsPerChunk % chunks_.size()];
  if (!chunk) chunk = std::make_unique<Row[]>(kRowsPerChunk);
  Row& row = this->row(first_ + count_);
  ++count_;
  row.id = span.id;
  row.parent_id = span.parent_id;
  row.start_ns = span.start_ns;
  row.end_ns = span.end_ns;
  row.index = span.index;
  row.gpu_ns = span.gpu_ns;
  row.memory_peak_bytes = span.memory_peak_bytes;
  row.thread_id = span.thread_id;
  pid_ = span.pid;
  rank_ = span.rank;
  row.name = record::interned_id(span.name);
  row.name_length = row.name != 0 ? 0 : static_cast<std::uint32_t>(span.name.size());
  row.attrs_length = static_cast<std::uint32_t>(span.attrs.size());
  std::free(row.text);
  row.text = keep(row.name != 0 ? std::string_view() : span.name, span.attrs);
  row.marks = {};
  if (waiting_.empty()) return;
  if (const auto found = waiting_.find(span.id); found != waiting_.end()) {
    row.marks = ClosedMarks(found->second);
    waiting_.erase(found);
  }
}

std::uint32_t Memory::take_mark() {
  if (free_mark_ != kNil) {
    const std::uint32_t number = free_mark_;
    free_mark_ = mark_row(number).next;
    return number;
  }
  if (fresh_mark_ == mark_chunks_.size() * kRowsPerChunk)
    mark_chunks_.push_back(std::make_unique<MarkRow[]>(kRowsPerChunk));
  return fresh_mark_++;
}

void Memory::append(Chain& chain, std::uint32_t limit, const model::Mark& mark) {
  std::uint32_t number;
  if (chain.count == limit) {
    number = chain.first;  // the oldest makes room
    chain.first = mark_row(number).next;
    --chain.count;
  } else {
    number = take_mark();
  }
  MarkRow& row = mark_row(number);
  row.id = mark.id;
  row.ts_ns = mark.ts_ns;
  row.type = mark.type;
  row.summary = mark.summary;
  if (mark.type == model::ValueType::kFloat) {
    row.real = mark.real;
  } else {
    row.integer = mark.integer;
  }
  row.name = record::interned_id(mark.name);
  row.name_length = row.name != 0 ? 0 : static_cast<std::uint16_t>(mark.name.size());
  row.text_length = static_cast<std::uint16_t>(mark.text.size());
  std::free(row.text);
  row.text = keep(row.name != 0 ? std::string_view() : mark.name, mark.text);
  row.next = kNil;
  if (chain.count == 0) {
    chain.first = number;
  } else {
    mark_row(chain.last).next = number;
  }
  chain.last = number;
  ++chain.count;
}

void Memory::add_mark(const model::Mark& mark) {
  if (waiting_.size() >= kMaxWaiting && waiting_.find(mark.span_id) == waiting_.end()) {
    // Spans whose records were lost; their marks have nowhere to be shown.
    for (auto& [id, marks] : waiting_) {
      release(marks.points.first, marks.points.count);
      release(marks.summaries.first, marks.summaries.count);
    }
    waiting_.clear();
  }
  Marks& marks = waiting_[mark.span_id];
  if (mark.summary) {
    append(marks.summaries, kMaxSummaryMarks, mark);
  } else {
    append(marks.points, kMaxPointMarks, mark);
  }
}

void Memory::release(std::uint32_t first, std::uint32_t count) {
  if (count == 0) return;
  std::uint32_t last = first;
  while (--count > 0) last = mark_row(last).next;
  mark_row(last).next = free_mark_;
  free_mark_ = first;
}

void Memory::evict_oldest() {
  Row& oldest = row(first_);
  release(oldest.marks.first_point, oldest.marks.points);
  release(oldest.marks.first_summary, oldest.marks.summaries);
  if (const auto late = waiting_.find(oldest.id); late != waiting_.end()) {
    release(late->second.points.first, late->second.points.count);
    release(late->second.summaries.first, late->second.summaries.count);
    waiting_.erase(late);
  }
  std::free(oldest.text);
  oldest.text = nullptr;
  ++first_;
  --count_;
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
    const Row& row = this->row(first_ + i);
    if (row.id != span) continue;
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
  constexpr std::size_t kOpenScopes = 256;  // are appended to it as a rule
  out.spans.reserve(out.spans.size() + count_ + kOpenScopes);
  if (how == MarksAs::kMarks) out.marks.reserve(out.marks.size() + fresh_mark_);
  if (how == MarksAs::kText) out.mark_lists.reserve(count_);
  for (std::size_t i = 0; i < count_; ++i) {
    const Row& row = this->row(first_ + i);
    model::Span& span = out.spans.emplace_back();
    span.id = row.id;
    span.parent_id = row.parent_id;
    span.name =
        row.name != 0 ? record::name_text(row.name) : out.arena.copy({row.text, row.name_length});
    span.attrs = out.arena.copy({row.text + row.name_length, row.attrs_length});
    span.index = row.index;
    span.start_ns = row.start_ns;
    span.end_ns = row.end_ns;
    span.gpu_ns = row.gpu_ns;
    span.memory_peak_bytes = row.memory_peak_bytes;
    span.thread_id = row.thread_id;
    span.pid = pid_;
    span.rank = rank_;
    add_marks(span, row.marks, out, how);
  }
}

}  // namespace sonde::session
