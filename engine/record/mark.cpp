#include "engine/record/mark.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "engine/base/utf8.h"
#include "engine/record/lane.h"
#include "engine/record/layout.h"
#include "engine/record/scope.h"

namespace sonde::record {

std::uint64_t write_mark_text(ThreadState& thread, const MarkRecord& plain,
                              const MarkValue& value) noexcept {
  Lane& ring = *thread.lane;
  const std::string_view name =
      value.name == 0 ? base::cut_utf8(value.name_text, kMaxNameBytes) : std::string_view();
  const std::string_view text = base::cut_utf8(value.text, kMaxValueBytes);
  if (value.type == MarkType::kBigInt && text.size() != value.text.size()) {
    ring.lost_marks.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  std::string_view attrs = value.attrs;
  if (name.size() + text.size() + attrs.size() > kMaxPayloadBytes) attrs = {};
  const std::uint32_t slots = 1 + text_slots(name.size() + text.size() + attrs.size());
  std::byte* place = reserve(ring, slots);
  if (place == nullptr) {
    ring.lost_marks.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  MarkRecord record = plain;
  record.name_length = static_cast<std::uint16_t>(name.size());
  record.text_length = static_cast<std::uint16_t>(text.size());
  record.attrs_length = static_cast<std::uint16_t>(attrs.size());
  std::memcpy(place, &record, sizeof record);
  std::byte* at = place + kSlotBytes;
  for (const std::string_view part : {name, text, attrs}) {
    if (!part.empty()) std::memcpy(at, part.data(), part.size());
    at += part.size();
  }
  publish(ring, slots);
  return record.sequence;
}

}  // namespace sonde::record
