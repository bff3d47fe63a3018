// The two-step commit between a journal and the spool, shared by the running session and recovery.
#pragma once

#include "engine/spool/directory.h"
#include "engine/spool/ring_reader.h"

namespace sonde::spool {

// Step 1, before the file is written: the lanes' pending tails are set and this batch is on its way.
// `last`: it also carries the open scopes, nothing is left in the journal behind it.
inline void announce(record::Header& header, const base::Id& batch_id, std::int64_t created_ns, bool last) {
  header.pending_id = batch_id;
  header.pending_created_ns = created_ns;
  header.pending.store(last ? 2 : 1, std::memory_order_release);
}

// Step 2, after the file is there. The order makes every point of death unambiguous: repeating the
// copies is harmless, and only then is the announcement withdrawn.
inline void commit_tails(record::Header& header, const JournalView& view) {
  for (const record::Lane* lane : view.lanes()) {
    auto* owned = const_cast<record::Lane*>(lane);
    if (owned->pending_tail.position > owned->tail.position || owned->pending_tail.thread_id != owned->tail.thread_id) owned->tail = owned->pending_tail;
  }
  std::atomic_thread_fence(std::memory_order_release);
  header.pending.store(0, std::memory_order_release);
}

enum class Announcement { kNone, kAllMoved };

// What an announcement found in a dead journal means; applies it.
inline Announcement settle_announcement(record::Header& header, const JournalView& view, const Directory& spool) {
  const std::uint64_t pending = header.pending.load(std::memory_order_acquire);
  const bool written = pending != 0 && spool.contains(header.pending_created_ns, header.pending_id);
  if (written && pending == 2) return Announcement::kAllMoved;
  if (written) commit_tails(header, view);
  header.pending.store(0, std::memory_order_release);
  return Announcement::kNone;
}

}  // namespace sonde::spool
