// How Memory (memory.h) lays out a span and a mark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "engine/base/id.h"
#include "engine/model/span_fields.h"
#include "engine/model/trace.h"

namespace sonde::session {

inline constexpr std::uint32_t kNoRow = 0xFFFFFFFFu;

// Marks of one kind in order of arrival.
struct MarkChain {
  std::uint32_t first = kNoRow, last = kNoRow, count = 0;
};

// The marks of a span that is not closed yet.
struct OpenMarks {
  MarkChain points, summaries;
  std::uint32_t count() const noexcept { return points.count + summaries.count; }
};

// The marks of a span that is closed: none are appended any more.
struct ClosedMarks {
  std::uint32_t first_point = kNoRow, points = 0, first_summary = kNoRow, summaries = 0;
  ClosedMarks() = default;
  explicit ClosedMarks(const OpenMarks& marks)
      : first_point(marks.points.first),
        points(marks.points.count),
        first_summary(marks.summaries.first),
        summaries(marks.summaries.count) {}
  std::uint32_t count() const noexcept { return points + summaries; }
};

constexpr std::size_t packed_bytes() noexcept {
  std::size_t bytes = 0;
  model::for_each_field<model::kMemory>([&]<typename One>(One) {
    static_assert(One::kKind != model::Kind::kName && One::kKind != model::Kind::kMembers,
                  "text is not packed");
    bytes += sizeof(One::of(std::declval<const model::Span&>()));
  });
  return bytes;
}

// The ids and numbers of a span, packed in the order of the table (model/span_fields.h). Text,
// marks and what is the same for all spans (pid, rank) are kept beside them.
class PackedSpan {
 public:
  void pack(const model::Span& span) noexcept {
    std::byte* at = bytes_;
    model::for_each_field<model::kMemory>([&]<typename One>(One) {
      std::memcpy(at, &One::of(span), sizeof(One::of(span)));
      at += sizeof(One::of(span));
    });
  }
  void unpack(model::Span& span) const noexcept {
    const std::byte* at = bytes_;
    model::for_each_field<model::kMemory>([&]<typename One>(One) {
      std::memcpy(&One::of(span), at, sizeof(One::of(span)));
      at += sizeof(One::of(span));
    });
  }
  base::Id id() const noexcept {
    static_assert(model::place_of_field<model::kMemory>("id") == 0);
    base::Id id;
    std::memcpy(&id, bytes_, sizeof id);
    return id;
  }

 private:
  alignas(8) std::byte bytes_[packed_bytes()];
};

struct SpanRow {
  PackedSpan span;
  char* text = nullptr;    // owned: the name unless it is interned, then the attributes
  std::uint32_t name = 0;  // its interned id, or its length in `text`
  std::uint32_t name_is_interned : 1 = 0, attrs_length : 31 = 0;
  ClosedMarks marks;

  std::uint32_t name_length() const noexcept { return name_is_interned ? 0 : name; }
  ~SpanRow() { std::free(text); }
};

struct MarkRow {
  base::Id id;
  std::int64_t ts_ns;
  union {
    double real;
    std::int64_t integer;
  };
  char* text = nullptr;  // owned: name unless interned, then the value
  std::uint32_t name = 0;
  std::uint32_t next = kNoRow;
  std::uint16_t name_length = 0, text_length = 0;  // a record's text is shorter than 64 KiB
  model::ValueType type;
  bool summary;
  ~MarkRow() { std::free(text); }
};

}  // namespace sonde::session
