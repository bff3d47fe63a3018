#include "engine/session/memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "engine/model/trace.h"
#include "engine/record/names.h"
#include "engine/session/memory_rows.h"

namespace sonde::session {

namespace {

constexpr std::size_t kMaxWaiting = 1u << 16;

// Copies both texts into one allocation, which the row owns. Null: nothing to copy, or no memory.
char* keep(std::string_view a, std::string_view b) {
  if (a.empty() && b.empty()) return nullptr;
  auto* text = static_cast<char*>(std::malloc(a.size() + b.size()));
  if (text == nullptr) return nullptr;
  if (!a.empty()) std::memcpy(text, a.data(), a.size());
  if (!b.empty()) std::memcpy(text + a.size(), b.data(), b.size());
  return text;
}

}  // namespace

void Memory::set_capacity(std::uint32_t spans) {
  const std::uint32_t wanted = std::max<std::uint32_t>(1, spans);
  if (wanted == capacity_) return;
  model::Batch kept;
  copy_all(kept);
  clear();
  capacity_ = wanted;
  add(kept);
}

void Memory::clear() {
  chunks_.clear();
  mark_chunks_.clear();
  waiting_.clear();
  first_ = count_ = 0;
  free_mark_ = kNoRow;
  fresh_mark_ = 0;
}

void Memory::add(const model::Batch& batch) {
  for (const model::Mark& mark : batch.marks) add_mark(mark);
  for (const model::Span& span : batch.spans) add_span(span);
}

void Memory::add_span(const model::Span& span) {
  if (count_ == capacity_) evict_oldest();
  if (chunks_.empty()) chunks_.resize(capacity_ / kRowsPerChunk + 1);
  auto& chunk = chunks_[(first_ + count_) / kRowsPerChunk % chunks_.size()];
  if (!chunk) chunk = std::make_unique<SpanRow[]>(kRowsPerChunk);
  SpanRow& row = this->row(first_ + count_);
  ++count_;
  row.span.pack(span);
  pid_ = span.pid;
  rank_ = span.rank;
  const std::uint32_t interned = record::interned_id(span.name);
  row.name_is_interned = interned != 0;
  row.name = interned != 0 ? interned : static_cast<std::uint32_t>(span.name.size());
  row.attrs_length = static_cast<std::uint32_t>(span.attrs.size()) & 0x7FFFFFFFu;
  std::free(row.text);
  row.text = keep(interned != 0 ? std::string_view() : span.name, span.attrs);
  if (row.text == nullptr) {  // no memory for it
    row.attrs_length = 0;
    if (!row.name_is_interned) row.name = 0;
  }
  row.marks = {};
  if (waiting_.empty()) return;
  if (const auto found = waiting_.find(span.id); found != waiting_.end()) {
    row.marks = ClosedMarks(found->second);
    waiting_.erase(found);
  }
}

std::uint32_t Memory::take_mark() {
  if (free_mark_ != kNoRow) {
    const std::uint32_t number = free_mark_;
    free_mark_ = mark_row(number).next;
    return number;
  }
  if (fresh_mark_ == mark_chunks_.size() * kRowsPerChunk)
    mark_chunks_.push_back(std::make_unique<MarkRow[]>(kRowsPerChunk));
  return fresh_mark_++;
}

void Memory::append(MarkChain& chain, std::uint32_t limit, const model::Mark& mark) {
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
  if (row.text == nullptr) row.name_length = row.text_length = 0;  // no memory for it
  row.next = kNoRow;
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
    // The records of these spans were lost, so their marks cannot be shown.
    for (auto& [id, marks] : waiting_) {
      release(marks.points.first, marks.points.count);
      release(marks.summaries.first, marks.summaries.count);
    }
    waiting_.clear();
  }
  OpenMarks& marks = waiting_[mark.span_id];
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
  SpanRow& oldest = row(first_);
  release(oldest.marks.first_point, oldest.marks.points);
  release(oldest.marks.first_summary, oldest.marks.summaries);
  if (const auto late = waiting_.find(oldest.span.id()); late != waiting_.end()) {
    release(late->second.points.first, late->second.points.count);
    release(late->second.summaries.first, late->second.summaries.count);
    waiting_.erase(late);
  }
  std::free(oldest.text);
  oldest.text = nullptr;
  ++first_;
  --count_;
}

}  // namespace sonde::session
