// Recording a value.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "engine/base/clock.h"
#include "engine/record/lane.h"
#include "engine/record/layout.h"  // IWYU pragma: export

namespace sonde::record {

// Half of the room for text. A longer int would be another number, so its mark is lost.
inline constexpr std::size_t kMaxValueBytes = kMaxPayloadBytes / 2;
// A string is cut to this length (base::cut_utf8).
inline constexpr std::size_t kMaxStringBytes = 256;

struct MarkValue {
  MarkType type = MarkType::kFloat;
  bool summary = false;
  std::uint32_t name = 0;  // interned; 0: name_text
  double real = 0;
  std::int64_t integer = 0;
  std::string_view name_text = {};
  std::string_view text = {};   // kString, kBigInt
  std::string_view attrs = {};  // JSON members
  std::uint64_t span = 0;       // sequence; 0: the innermost open scope
  bool span_lists_it = false;   // with `span`: its record is still to come, in this very ring
};

// Hot. A float on the innermost open scope, the most frequent mark by far. False when it was
// dropped.
inline bool write_float(ThreadState& thread, Lane& stack, std::uint32_t name,
                        double value) noexcept {
  Lane& ring = *thread.lane;
  auto* record = reinterpret_cast<MarkRecord*>(reserve(ring, 1));
  if (record == nullptr) [[unlikely]] {
    ring.lost_marks.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  record->kind = RecordKind::kMark;
  record->type = MarkType::kFloat;
  record->summary = 0;
  record->on_open_scope = stack.depth.load(std::memory_order_relaxed) > 0;
  record->name = name;
  record->sequence = ring.next_sequence++;
  ++thread.marks;
  record->span = current_parent(stack);
  record->ts_ns = base::monotonic_ns();
  record->value.real = value;
  record->static_attrs = 0;
  record->name_length = record->attrs_length = record->text_length = 0;
  publish(ring, 1);
  return true;
}

// Cold form, for a mark with text, which follows the record.
std::uint64_t write_mark_text(ThreadState& thread, const MarkRecord& record,
                              const MarkValue& value) noexcept;

// Hot. The value belongs to the span it names, else to the innermost open scope of `stack`, else to
// the session. Returns the mark's sequence, 0 when it was dropped.
inline std::uint64_t write_mark(ThreadState& thread, Lane& stack, const MarkValue& value) noexcept {
  Lane& ring = *thread.lane;
  MarkRecord record;
  record.kind = RecordKind::kMark;
  record.type = value.type;
  record.summary = value.summary;
  record.on_open_scope =
      value.span == 0 ? stack.depth.load(std::memory_order_relaxed) > 0 : value.span_lists_it;
  record.name = value.name;
  record.sequence = ring.next_sequence++;
  ++thread.marks;
  record.span = value.span == 0 ? current_parent(stack) : value.span;
  record.ts_ns = base::monotonic_ns();
  if (value.type == MarkType::kFloat) {
    record.value.real = value.real;
  } else {
    record.value.integer = value.integer;
  }
  record.static_attrs = 0;
  record.name_length = record.attrs_length = record.text_length = 0;
  std::memset(record.reserved, 0, sizeof record.reserved);
  if (value.name == 0 || !value.text.empty() || !value.attrs.empty()) [[unlikely]] {
    return write_mark_text(thread, record, value);
  }
  std::byte* place = reserve(ring, 1);
  if (place == nullptr) [[unlikely]] {
    ring.lost_marks.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  std::memcpy(place, &record, sizeof record);
  publish(ring, 1);
  return record.sequence;
}

}  // namespace sonde::record
