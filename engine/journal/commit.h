// The two-step commit between a journal and the destination of its batches, shared by the running
// session and recovery.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/id.h"
#include "engine/journal/destination.h"
#include "engine/record/layout.h"

namespace sonde::journal {

// The values of Header::pending, besides 0 for no announcement.
// A batch is being written. If it is at its destination, so are its records.
inline constexpr std::uint64_t kBatch = 1;
// A batch is being written that has the open scopes too: nothing is left in the journal after it.
inline constexpr std::uint64_t kLastBatch = 2;
// No batch is being written; the tails are being copied.
inline constexpr std::uint64_t kTailsOnly = 3;

// Step 1, before the batch is written. The pending tails of the lanes are set already.
inline void announce(record::Header& header, const base::Id& batch_id, std::int64_t created_ns,
                     bool last) {
  header.pending_id = batch_id;
  header.pending_created_ns = created_ns;
  header.pending.store(last ? kLastBatch : kBatch, std::memory_order_release);
}

// The batch could not be written: its records stay in the journal.
inline void withdraw(record::Header& header) { header.pending.store(0, std::memory_order_release); }

// Step 2, once the batch is at its destination. A process may die at any point of it: a tail is
// copied in pieces, but the announcement is withdrawn last, so recovery copies the tails again.
template <typename Lanes>
void commit_tails(record::Header& header, const Lanes& lanes) {
  if (header.pending.load(std::memory_order_relaxed) == 0)
    header.pending.store(kTailsOnly, std::memory_order_release);
  for (record::Lane* lane : lanes) lane->tail = lane->pending_tail;
  header.pending.store(0, std::memory_order_release);
}

// The two steps on the journal of this process, which begins at this address, for code that does
// not know the journal's layout.
class OwnCommit {
 public:
  explicit OwnCommit(std::byte* journal) : header_(*reinterpret_cast<record::Header*>(journal)) {}

  void announce(const base::Id& batch_id, std::int64_t created_ns) {
    journal::announce(header_, batch_id, created_ns, false);
  }
  void withdraw() { journal::withdraw(header_); }
  void commit(const std::vector<record::Lane*>& lanes) { commit_tails(header_, lanes); }

 private:
  record::Header& header_;
};

enum class Announcement { kNone, kAllMoved };

// Applies the announcement that a dead journal was left with.
inline Announcement settle_announcement(record::Header& header,
                                        const std::vector<record::Lane*>& lanes,
                                        const Destination& destination) {
  const std::uint64_t pending = header.pending.load(std::memory_order_acquire);
  const bool written =
      pending != 0 && destination.contains(header.pending_created_ns, header.pending_id);
  if (written && pending == kLastBatch) return Announcement::kAllMoved;
  if (written || pending == kTailsOnly) {
    commit_tails(header, lanes);
  } else {
    for (record::Lane* lane : lanes) lane->pending_tail = lane->tail;  // the batch never came
  }
  header.pending.store(0, std::memory_order_release);
  return Announcement::kNone;
}

}  // namespace sonde::journal
