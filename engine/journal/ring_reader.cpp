#include "engine/journal/ring_reader.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/arena.h"
#include "engine/base/attr_names.h"
#include "engine/base/attr_writer.h"
#include "engine/base/clock.h"
#include "engine/base/id.h"
#include "engine/base/json_writer.h"
#include "engine/model/trace.h"
#include "engine/record/layout.h"
#include "engine/record/layout_certainty.h"

namespace sonde::journal {

using record::BlockHeader;
using record::BlockType;
using record::kLaneBytes;
using record::kSlotBytes;
using record::kSlotsPerBlock;
using record::Lane;
using record::MarkRecord;
using record::RecordKind;
using record::SpanRecord;

std::string_view View::name(std::uint32_t id) const {
  const std::size_t offset = std::size_t{id} * 8;
  const std::size_t used = std::min<std::size_t>(
      header().names_used.load(std::memory_order_acquire), record::kNamesBytes);
  if (id == 0 || offset + sizeof(std::uint32_t) > used) return {};
  const char* entry = reinterpret_cast<const char*>(base) + record::kNamesOffset + offset;
  std::uint32_t length;
  std::memcpy(&length, entry, sizeof length);
  if (length > used - offset - sizeof length) return {};
  return {entry + sizeof length, length};
}

std::vector<const Lane*> View::lanes() const {
  std::vector<std::pair<std::uint32_t, const Lane*>>
      found;  // numbers copied: the memory may change while we sort
  for (std::uint32_t i = 1; i < blocks; ++i) {
    const BlockHeader* header = block(i);
    if (header->type.load(std::memory_order_acquire) != BlockType::kLanes) continue;
    const std::byte* first = reinterpret_cast<const std::byte*>(header) + kSlotBytes;
    for (std::size_t k = 0; k < 4; ++k) {
      const auto* lane = reinterpret_cast<const Lane*>(first + k * kLaneBytes);
      if (lane->next_sequence != 0) found.emplace_back(lane->number, lane);
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<const Lane*> lanes;
  lanes.reserve(found.size());
  for (const auto& [number, lane] : found) lanes.push_back(lane);
  return lanes;
}

namespace {

constexpr std::uint32_t kWait = ~0u;

std::string_view closed_by_text(record::ClosedBy how) {
  switch (how) {
    case record::ClosedBy::kParent:
      return "parent";
    case record::ClosedBy::kShutdown:
      return "shutdown";
    case record::ClosedBy::kThreadExit:
      return "thread_exit";
    case record::ClosedBy::kDeath:
      return "death";
    case record::ClosedBy::kGarbage:
      return "garbage_collection";
    case record::ClosedBy::kSelf:
      break;
  }
  return {};
}

}  // namespace

std::string_view join_attrs(base::JsonWriter& scratch, base::Arena& arena, std::string_view fixed,
                            std::string_view given, bool has_data_load, std::uint64_t data_load_ns,
                            record::ClosedBy closed_by) {
  const std::string_view how = closed_by_text(closed_by);
  if (!has_data_load && how.empty()) {
    if (given.empty()) return fixed;
    if (fixed.empty()) return arena.copy(given);
  }
  scratch.clear();
  base::AttrWriter attrs(scratch);
  attrs.members(fixed);
  attrs.members(given);
  if (has_data_load) attrs.number(base::kDataLoadNsAttr, data_load_ns);
  if (!how.empty()) attrs.text(base::kClosedByAttr, how);
  return arena.copy(scratch.view());
}

namespace {

GpuEvents gpu_events(const SpanRecord& record) {
  return {.start = static_cast<std::uint32_t>(record.aux),
          .end = static_cast<std::uint32_t>(record.aux >> 32),
          .end_ns = record.end_ns,
          .name = record.name};
}

}  // namespace

// False while the place of a span of this process is not certain and is worth waiting for.
bool RingReader::may_read(SpanRecord& in_ring) {
  if (record::is_certain(in_ring)) [[likely]]
    return true;
  switch (own_->uncertain(in_ring.end_ns)) {
    case Uncertain::kRead:
      return true;
    case Uncertain::kWait:
      return false;
    case Uncertain::kSettle:
      break;
  }
  return record::make_certain(in_ring);
}

// False when the span has to wait for the GPU.
bool RingReader::add_span(const SpanRecord& record, const char* text, std::uint64_t thread_id,
                          model::Batch& out) {
  const record::Header& head = view_.header();
  model::Span& span = out.spans.emplace_back();
  span.id = base::make_id(head.key, record.sequence);
  span.parent_id = base::make_id(head.key, record.parent);
  span.name =
      record.name != 0 ? view_.name(record.name) : out.arena.copy({text, record.name_length});
  if ((record.flags & record::kHasIndex) != 0) span.index = record.index;
  span.start_ns = base::to_wall_ns(head.anchor, record.start_ns);
  span.end_ns = base::to_wall_ns(head.anchor, record.end_ns);
  span.thread_id = thread_id;
  span.pid = static_cast<std::int32_t>(head.pid);
  span.rank = head.rank;
  // A fetch has its own duration; a batch has that of the fetch before it.
  const bool fetch = (record.flags & record::kIsFetch) != 0;
  const bool has_data_load = fetch || (record.flags & record::kHasDataLoad) != 0;
  if ((record.attrs_length | record.static_attrs) != 0 || has_data_load ||
      record.closed_by != record::ClosedBy::kSelf) {
    span.attrs = join_attrs(attrs_, out.arena, view_.name(record.static_attrs),
                            {text + record.name_length, record.attrs_length}, has_data_load,
                            fetch ? static_cast<std::uint64_t>(span.duration_ns()) : record.aux,
                            record.closed_by);
  }
  if ((record.flags & record::kHasGpu) != 0 && own_ != nullptr) {
    const std::size_t ids = out.mark_ids.size();
    out.mark_ids.resize(ids + marks_.count(record.sequence));  // has the memory that take() needs
    out.mark_ids.resize(ids);
    // This comes after everything that can fail for lack of memory, because the events may be given
    // back only once.
    if (!own_->resolve(gpu_events(record), span)) {
      out.spans.pop_back();
      return false;
    }
  }
  span.first_mark_id = static_cast<std::uint32_t>(out.mark_ids.size());
  span.mark_id_count = marks_.take(record.sequence, head.key, out.mark_ids);
  return true;
}

void RingReader::add_mark(const MarkRecord& record, const char* text, model::Batch& out) {
  const record::Header& head = view_.header();
  model::Mark& mark = out.marks.emplace_back();
  mark.id = base::make_id(head.key, record.sequence);
  mark.span_id = base::make_id(head.key, record.span);
  mark.name =
      record.name != 0 ? view_.name(record.name) : out.arena.copy({text, record.name_length});
  mark.ts_ns = base::to_wall_ns(head.anchor, record.ts_ns);
  mark.summary = record.summary != 0;
  const char* value = text + record.name_length;
  if (record.attrs_length != 0)
    mark.attrs = out.arena.copy({value + record.text_length, record.attrs_length});
  switch (record.type) {
    case record::MarkType::kFloat:
      mark.real = record.value.real;
      break;
    case record::MarkType::kInt:
      mark.type = model::ValueType::kInt;
      mark.integer = record.value.integer;
      break;
    case record::MarkType::kBool:
      mark.type = model::ValueType::kBool;
      mark.integer = record.value.integer;
      break;
    case record::MarkType::kBigInt:
      mark.type = model::ValueType::kInt;
      mark.text = out.arena.copy({value, record.text_length});
      break;
    case record::MarkType::kString:
      mark.type = model::ValueType::kString;
      mark.text = out.arena.copy({value, record.text_length});
      break;
  }
  if (record.on_open_scope != 0) marks_.add(record.span, record.sequence);
}

// Slots that the record at `slot` takes, 0 if it is not one, kWait if it cannot be read yet. `room`
// is what the block still has.
std::uint32_t RingReader::decode(const std::byte* slot, std::uint32_t room,
                                 std::uint64_t& thread_id, model::Batch& out) {
  const char* text = reinterpret_cast<const char*>(slot + kSlotBytes);
  switch (static_cast<RecordKind>(*slot)) {
    case RecordKind::kSpan: {
      if (own_ != nullptr &&
          !may_read(*const_cast<SpanRecord*>(reinterpret_cast<const SpanRecord*>(slot))))
        return kWait;
      SpanRecord record;
      std::memcpy(static_cast<void*>(&record), slot, sizeof record);
      const std::uint32_t slots =
          1 + record::text_slots(std::size_t{record.name_length} + record.attrs_length);
      if (slots > room) return 0;
      return add_span(record, text, thread_id, out) ? slots : kWait;
    }
    case RecordKind::kMark: {
      MarkRecord record;
      std::memcpy(static_cast<void*>(&record), slot, sizeof record);
      const std::uint32_t slots = 1 + record::text_slots(std::size_t{record.name_length} +
                                                         record.text_length + record.attrs_length);
      if (slots > room) return 0;
      add_mark(record, text, out);
      return slots;
    }
    case RecordKind::kThread: {
      record::ThreadRecord record;
      std::memcpy(static_cast<void*>(&record), slot, sizeof record);
      thread_id = record.thread_id;
      return 1;
    }
    default:
      return 0;
  }
}

// The chain of blocks is broken here: the rest of the ring cannot be found.
bool RingReader::lose_rest(record::RingTail& cursor, std::uint64_t head) {
  ++damaged_;
  cursor.position = head;
  return false;
}

// As decode(). If it throws, `out` is as before.
std::uint32_t RingReader::decode_whole(const std::byte* slot, std::uint32_t room,
                                       std::uint64_t& thread_id, model::Batch& out) {
  const std::size_t spans = out.spans.size(), marks = out.marks.size();
  try {
    return decode(slot, room, thread_id, out);
  } catch (...) {
    out.spans.resize(spans);
    out.marks.resize(marks);
    throw;
  }
}

bool RingReader::read(const Lane& lane, record::RingTail& cursor, std::size_t limit,
                      model::Batch& out, std::vector<std::uint32_t>* finished,
                      std::uint64_t until) {
  const std::uint64_t head = std::min(lane.head.load(std::memory_order_acquire), until);
  if (cursor.block == 0) cursor.block = lane.first_block.load(std::memory_order_acquire);
  const std::size_t full = out.record_count() + std::min(limit, ~out.record_count());
  std::uint32_t hops = 0;
  while (cursor.position < head) {
    if (out.record_count() >= full) return true;
    const BlockHeader* block = view_.block(cursor.block);
    // The ring ends at a block that is gone (it was in memory only) or has other positions.
    if (block == nullptr || block->type.load(std::memory_order_acquire) != BlockType::kRing)
      return lose_rest(cursor, head);
    // Read once: a process that runs may give the block to another ring at any moment.
    const std::uint64_t base = __atomic_load_n(&block->base, __ATOMIC_RELAXED);
    if (cursor.position < base || cursor.position - base > kSlotsPerBlock)
      return lose_rest(cursor, head);
    const std::uint32_t next = block->next.load(std::memory_order_acquire);
    const std::uint64_t end =
        next != 0 ? std::min(head, __atomic_load_n(&block->end, __ATOMIC_RELAXED)) : head;
    if (cursor.position >= end) {
      if (next == 0 || ++hops > view_.blocks)
        return lose_rest(cursor, head);  // nowhere to go, or in a circle
      if (finished != nullptr) finished->push_back(cursor.block);
      cursor.block = next;
      continue;
    }
    const auto offset = static_cast<std::uint32_t>(cursor.position - base);
    const auto room = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(kSlotsPerBlock - offset, end - cursor.position));
    if (room == 0) return lose_rest(cursor, head);
    const std::byte* slot =
        reinterpret_cast<const std::byte*>(block) + (1 + std::size_t{offset}) * kSlotBytes;
    const std::uint32_t slots = decode_whole(slot, room, cursor.thread_id, out);
    if (slots == kWait) {
      waited_ = true;
      return false;
    }
    if (slots == 0) ++damaged_;
    cursor.position += slots == 0 ? 1 : slots;
  }
  return false;
}

model::Span RingReader::open_span(const record::OpenScope& scope, std::string_view text,
                                  std::uint64_t thread_id, base::Arena& arena) const {
  const record::Header& head = view_.header();
  model::Span span;
  span.id = base::make_id(head.key, scope.sequence);
  span.parent_id = base::make_id(head.key, scope.parent);
  const std::size_t name_length = std::min<std::size_t>(scope.name_length, text.size());
  const std::size_t attrs_length =
      std::min<std::size_t>(scope.attrs_length, text.size() - name_length);
  span.name = scope.name != 0 ? arena.copy(view_.name(scope.name))
                              : arena.copy(text.substr(0, name_length));
  const std::uint8_t flags = scope.flags.load(std::memory_order_relaxed);
  if ((flags & record::kHasIndex) != 0) span.index = scope.index;
  span.start_ns = base::to_wall_ns(head.anchor, scope.start_ns);
  span.thread_id = thread_id;
  span.pid = static_cast<std::int32_t>(head.pid);
  span.rank = head.rank;
  base::JsonWriter attrs;
  span.attrs = arena.copy(join_attrs(
      attrs, arena, view_.name(scope.static_attrs), text.substr(name_length, attrs_length),
      (flags & record::kHasDataLoad) != 0, scope.aux, record::ClosedBy::kSelf));
  return span;
}

}  // namespace sonde::journal
