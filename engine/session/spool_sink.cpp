#include "engine/session/spool_sink.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/file.h"
#include "engine/base/id.h"
#include "engine/base/log.h"
#include "engine/model/trace.h"
#include "engine/session/contents.h"
#include "engine/session/counters.h"
#include "engine/session/moved.h"
#include "engine/session/outgoing_batch.h"
#include "engine/spool/directory.h"

namespace sonde::session {

void SpoolSink::find(const base::Id& span) {
  wanted_ = span;
  wants_.store(true, std::memory_order_release);
}

void SpoolSink::accept(const std::shared_ptr<const OutgoingBatch>& batch) {
  const model::Batch& records = batch->records;
  const auto is_wanted = [this](const model::Span& span) { return span.id == wanted_; };
  if (wants_.load(std::memory_order_acquire) && std::ranges::any_of(records.spans, is_wanted)) {
    found_in_ = base::join_path(directory_.path(),
                                spool::batch_file_name(records.created_ns, records.batch_id));
  }
  // Last: a batch that is committed must not be handed over again because of an exception.
  outbox_.send(records.created_ns, records.batch_id, batch->json(), batch->moved,
               Contents::of(records));
}

void SpoolSink::lose(const OutgoingBatch& batch) noexcept {
  lost_some_ = true;
  outbox_.lose(Contents::of(batch.records));
}

bool SpoolSink::flush(std::uint64_t deadline_ns, bool last) {
  if (outbox_.retry(deadline_ns)) return !lost_some_;
  if (!last) return false;
  if (const std::uint64_t records = outbox_.drop_snapshots(); records != 0) {
    base::log_once(base::LogLevel::kWarning, "flush", "snapshots-lost",
                   std::to_string(records) + " snapshot records could not be written to " +
                       directory_.path() + " and are lost: free space or make it writable");
  }
  return outbox_.waiting() == 0 && !lost_some_;
}

void SpoolSink::count(Counters& all) const {
  if (waiting() > 0) all.mode = Counters::Mode::kDegraded;
  all.evicted_files = directory_.evicted();
  all.spool_bytes = directory_.bytes();
  all.write_failures += outbox_.failures();
  all.lost_batches += outbox_.lost();
  all.waiting_batches += waiting();
  all.snapshots += outbox_.snapshots_written();
  all.dropped_snapshots += outbox_.snapshots_lost();
}

}  // namespace sonde::session
