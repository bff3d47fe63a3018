#include "engine/journal/open_scopes.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/base/arena.h"
#include "engine/journal/ring_reader.h"
#include "engine/model/process.h"
#include "engine/record/layout.h"

namespace sonde::journal {

using record::Header;
using record::kSequenceBits;
using record::Lane;
using record::OpenScope;

namespace {

// Whether the record that closes this scope was published before the process died. The flag of the
// slot does not tell: it is set before the record is written.
bool record_is_there(const std::vector<const Lane*>& lanes, std::uint64_t closing) {
  if (closing == 0) return false;
  if (closing == record::kNoRecord) return true;
  const std::uint64_t position = closing & ((std::uint64_t{1} << kSequenceBits) - 1);
  for (const Lane* lane : lanes) {
    if (lane->number == closing >> kSequenceBits)
      return lane->head.load(std::memory_order_acquire) >= position;
  }
  return false;
}

OpenScope* copy_scope(const OpenScope& from, std::byte (&storage)[sizeof(OpenScope)]) {
  std::memcpy(storage, static_cast<const void*>(&from), sizeof(OpenScope));
  return reinterpret_cast<OpenScope*>(storage);
}

void collect_lane(const RingReader& reader, const std::vector<const Lane*>& lanes, const Lane& lane,
                  base::Arena& arena, std::vector<OpenSlot>& out) {
  const std::uint32_t depth =
      std::min(lane.depth.load(std::memory_order_acquire), record::kMaxDepth);
  for (std::uint32_t i = 0; i < depth; ++i) {
    alignas(OpenScope) std::byte storage[sizeof(OpenScope)];
    const OpenScope& scope = *copy_scope(lane.stack[i], storage);
    if (scope.sequence == 0 || record_is_there(lanes, scope.closing)) continue;
    const std::size_t offset = std::min<std::size_t>(scope.text_offset, record::kLaneArenaBytes);
    model::OpenScope open;
    open.span = reader.open_span(scope, {lane.arena + offset, record::kLaneArenaBytes - offset},
                                 lane.thread_id, arena);
    open.os_thread_id = lane.os_thread_id;
    open.lane = lane.number;
    open.task = lane.state.load(std::memory_order_relaxed) == record::LaneState::kTask;
    out.push_back({open, scope.sequence});
  }
}

}  // namespace

void collect_open(const View& view, const RingReader& reader, base::Arena& arena,
                  std::vector<OpenSlot>& out) {
  const Header& head = view.header();
  const std::vector<const Lane*> lanes = view.lanes();
  alignas(OpenScope) std::byte storage[sizeof(OpenScope)];
  const OpenScope& session = *copy_scope(head.session, storage);
  if (session.sequence != 0 && !record_is_there(lanes, session.closing)) {
    model::OpenScope root;
    root.span = reader.open_span(session, {head.session_text, record::kSessionTextBytes},
                                 head.session_thread_id, arena);
    root.session = true;
    out.push_back({root, session.sequence});
  }
  for (const Lane* lane : lanes) {
    if (lane->state.load(std::memory_order_acquire) != record::LaneState::kFree)
      collect_lane(reader, lanes, *lane, arena, out);
  }
}

}  // namespace sonde::journal
