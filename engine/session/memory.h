// The newest closed spans with their marks, in memory, for trace(). Compact: about 110 bytes a span
// and 50 a mark, allocated as it fills.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/base/id.h"
#include "engine/model/trace.h"
#include "engine/session/memory_rows.h"

namespace sonde::session {

// In which form a reader wants the marks: only how many each span has, also their text, or all of
// them.
enum class MarksAs { kCount, kText, kMarks };

// Not thread-safe: the drain lock guards it (Shared::lock).
class Memory {
 public:
  static constexpr std::uint32_t kMaxPointMarks = 1024;     // kept per span, the newest
  static constexpr std::uint32_t kMaxSummaryMarks = 65536;  // the same

  void set_capacity(std::uint32_t spans);
  std::uint32_t capacity() const noexcept { return capacity_; }
  // Appends everything, also marks whose span has not come yet. add() takes the result.
  void copy_all(model::Batch& out) const;
  void add(const model::Batch& batch);
  void clear();
  std::size_t size() const noexcept { return count_; }
  // How many spans made way for newer ones.
  std::uint64_t evicted() const noexcept { return first_; }

  // Appends every span, oldest first, with its marks; text is copied into the batch's arena.
  // Each span says how many marks it has (mark_id_count).
  void copy_to(model::Batch& out, MarksAs how = MarksAs::kMarks) const;
  // Gives a span that is still open its marks.
  void add_open_marks(model::Span& span, model::Batch& out, MarksAs how) const;
  // Appends the marks that wait for this span: it is still open, or they came after it had closed.
  void copy_open_marks(const base::Id& span, model::Batch& out) const;
  std::uint32_t count_open_marks(const base::Id& span) const;
  // Ids of the marks of one span, open or closed; looks through everything.
  void mark_ids(const base::Id& span, std::vector<base::Id>& out) const;

 private:
  static constexpr std::size_t kRowsPerChunk = 1024;

  SpanRow& row(std::size_t position) const {
    const std::size_t at = position % (chunks_.size() * kRowsPerChunk);
    return chunks_[at / kRowsPerChunk][at % kRowsPerChunk];
  }
  MarkRow& mark_row(std::uint32_t number) const {
    return mark_chunks_[number / kRowsPerChunk][number % kRowsPerChunk];
  }
  void add_span(const model::Span& span);
  void add_mark(const model::Mark& mark);
  void append(MarkChain& chain, std::uint32_t limit, const model::Mark& mark);
  void release(std::uint32_t first, std::uint32_t count);
  void evict_oldest();
  void copy_marks(const base::Id& span, const ClosedMarks& marks, model::Batch& out) const;
  void add_marks(model::Span& span, const ClosedMarks& marks, model::Batch& out, MarksAs how) const;
  std::uint32_t take_mark();

  std::uint32_t capacity_ = 100'000;
  std::size_t first_ = 0;  // position of the oldest row; positions only grow, chunks are reused
  std::size_t count_ = 0;
  // One more than the capacity needs; a chunk is allocated when its first row is used.
  std::vector<std::unique_ptr<SpanRow[]>> chunks_;
  std::vector<std::unique_ptr<MarkRow[]>> mark_chunks_;
  std::int32_t pid_ = 0, rank_ = 0;  // the same for all: this process, this session
  std::uint32_t free_mark_ = kNoRow;
  std::uint32_t fresh_mark_ = 0;
  std::unordered_map<base::Id, OpenMarks, base::IdHash>
      waiting_;  // marks whose span was not closed
};

}  // namespace sonde::session
