// The two-step commit between a journal and the spool, shared by the running session and recovery.
#pragma once

#include "engine/spool/directory.h"
#include "engine/spool/ring_reader.h"

namespace sonde::spool {

// Header::pending, besides 0 for nothing.
inline constexpr std::uint64_t kBatch =
    1;  // the file of a batch is being written; if it is there, so are its records
inline constexpr std::uint64_t kLastBatch =
    2;  // likewise, and it carries the open scopes too: nothing is left behind it
inline constexpr std::uint64_t kTailsOnly = 3;  // there is no file, the tails are being copied

// Step 1, before the file is written: the lanes' pending tails are set and this batch is on its
// way.
inline void announce(record::Header& header, const base::Id& batch_id, std::int64_t created_ns,
                     bool last) {
  header.pending_id = batch_id;
  header.pending_created_ns = created_ns;
  header.pending.store(last ? kLastBatch : kBatch, std::memory_order_release);
}

// Step 2, after the file is there. The order makes every point of death unambiguous: a tail is
// copied in pieces, but as long as the announcement stands the copying is repeated, and only then
// is it withdrawn.
template <typename Lanes>
void commit_tails(record::Header& header, const Lanes& lanes) {
  if (header.pending.load(std::memory_order_relaxed) == 0)
    header.pending.store(kTailsOnly, std::memory_order_release);
  for (record::Lane* lane : lanes) lane->tail = lane->pending_tail;
  header.pending.store(0, std::memory_order_release);
}

enum class Announcement { kNone, kAllMoved };

// What an announcement found in a dead journal means; applies it.
inline Announcement settle_announcement(record::Header& header,
                                        const std::vector<record::Lane*>& lanes,
                                        const Directory& spool) {
  const std::uint64_t pending = header.pending.load(std::memory_order_acquire);
  const bool written = pending != 0 && spool.contains(header.pending_created_ns, header.pending_id);
  if (written && pending == kLastBatch) return Announcement::kAllMoved;
  if (written || pending == kTailsOnly) {
    commit_tails(header, lanes);
  } else {
    for (record::Lane* lane : lanes) lane->pending_tail = lane->tail;  // the batch never came
  }
  header.pending.store(0, std::memory_order_release);
  return Announcement::kNone;
}

}  // namespace sonde::spool
