#include "engine/session/outgoing_batch.h"

#include <cstddef>
#include <mutex>
#include <string_view>

#include "engine/codec/encode.h"
#include "engine/model/trace.h"

namespace sonde::session {

std::string_view OutgoingBatch::json() const {
  const std::lock_guard lock(encoding_);
  if (!encoded_) {
    json_.clear();
    codec::encode_batch(json_, records);
    encoded_ = true;
  }
  return json_.view();
}

std::size_t OutgoingBatch::bytes() const noexcept {
  std::size_t all = json_.size();
  for (const model::Batch* each : {&records, &earlier_marks, &open_scopes}) {
    all += each->spans.capacity() * sizeof(model::Span) +
           each->marks.capacity() * sizeof(model::Mark) +
           each->snapshots.capacity() * sizeof(model::Snapshot) + each->arena.bytes();
  }
  return all;
}

void OutgoingBatch::clear() noexcept {
  records.clear();
  moved.clear();
  earlier_marks.clear();
  open_scopes.clear();
  announcements.clear();
  encoded_ = false;  // the text stays until the next one is encoded: bytes() counts it
}

void OutgoingBatch::shrink() noexcept {
  constexpr std::size_t kKeptBytes = 256 * 1024;
  if (bytes() <= kKeptBytes) return;
  json_ = {};
  for (model::Batch* each : {&records, &earlier_marks, &open_scopes}) *each = {};
}

}  // namespace sonde::session
