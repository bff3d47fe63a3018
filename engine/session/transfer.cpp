#include "engine/session/transfer.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/id.h"
#include "engine/base/log.h"
#include "engine/base/swallowed.h"
#include "engine/model/trace.h"
#include "engine/record/journal.h"
#include "engine/session/counters.h"
#include "engine/session/drainer.h"
#include "engine/session/outgoing_batch.h"
#include "engine/session/standstill.h"

namespace sonde::session {

using record::Journal;

namespace {

constexpr std::size_t kRecordsPerBatch = 16 * 1024;
constexpr std::size_t kSnapshotsPerBatch = 1024;  // about a kilobyte each

void rest_a_moment() noexcept {
  const timespec moment{0, 500'000};
  ::nanosleep(&moment, nullptr);
}

// Switches giving up off again at the end of the block, even after an exception, so that the next
// session waits for its GPU times.
class GivingUp {
 public:
  explicit GivingUp(Waiting& waiting) noexcept : waiting_(waiting) {}
  GivingUp(const GivingUp&) = delete;
  GivingUp& operator=(const GivingUp&) = delete;
  ~GivingUp() { waiting_.give_up(false); }

 private:
  Waiting& waiting_;
};

}  // namespace

void Transfer::drain() {
  {
    const std::lock_guard lock(shared_.lock);
    start_over_if_lost();
    shared_.drainer.begin_pass();
  }
  for (bool more = true; more;) {
    more = next_batch();
    if (batch_->records.empty() || is_only_the_session()) {
      sinks_.remember(batch_);
    } else {
      deliver();
    }
    if (more) keeper_.grow();  // under heavy recording the next tick would be too late
  }
}

OutgoingBatch& Transfer::fresh_batch() {
  if (batch_) {
    batch_->clear();
  } else {
    batch_ = std::make_shared<OutgoingBatch>();
  }
  return *batch_;
}

// Fills batch_; true when another one has to follow.
bool Transfer::next_batch() {
  OutgoingBatch& batch = fresh_batch();
  const std::lock_guard lock(shared_.lock);
  const bool more = shared_.drainer.collect(kRecordsPerBatch, batch.records, batch.moved);
  if (start_over_if_lost()) {
    batch.clear();
    return false;
  }
  if (sinks_.needs().context) add_context(batch);
  return more;
}

// If there is no memory for the context, the batch goes on without it: its records have left the
// rings already.
void Transfer::add_context(OutgoingBatch& batch) noexcept {
  try {
    for (const model::Span& span : batch.records.spans)
      shared_.memory.copy_open_marks(span.id, batch.earlier_marks);
    shared_.drainer.append_open(batch.open_scopes);
  } catch (const std::exception&) {
    base::note_swallowed("flush");
    batch.earlier_marks.clear();
    batch.open_scopes.clear();
  }
}

// A child process that was woken and then recorded nothing (a hook looked, and saw nothing of
// interest) leaves no run behind.
bool Transfer::is_only_the_session() const {
  const model::Batch& records = batch_->records;
  return on_demand_ && batches() == 0 && records.record_count() == 1 && records.spans.size() == 1 &&
         records.spans.front().is_session();
}

bool Transfer::start_over_if_lost() {
  if (!keeper_.lost_pages()) return false;
  const Standstill standstill;
  keeper_.start_over();
  shared_.drainer.start_over();
  sinks_.forget_positions();
  return true;
}

bool Transfer::was_cut_short() const {
  const std::lock_guard lock(shared_.lock);
  return shared_.drainer.was_cut_short();
}

void Transfer::leave_unread() {
  if (!shared_.drainer.has_unread()) return;
  Journal::instance().start_over();
  shared_.drainer.start_over();
  sinks_.forget_positions();
}

void Transfer::deliver() {
  model::Batch& records = batch_->records;
  const base::ClockAnchor& anchor = Journal::instance().anchor();
  records.batch_id = base::random_id();
  records.created_ns =
      std::max(base::to_wall_ns(anchor, base::monotonic_ns()), last_created_ns_ + 1);
  last_created_ns_ = records.created_ns;
  batches_.fetch_add(1, std::memory_order_relaxed);
  batch_ = sinks_.accept(std::move(batch_));
}

void Transfer::await_gpu(std::uint64_t patience_ns, bool give_up) {
  const GivingUp giving_up(shared_.drainer.waiting());
  const std::uint64_t deadline = base::monotonic_ns() + patience_ns;
  while (shared_.drainer.take_waited()) {
    if (base::monotonic_ns() >= deadline) {
      if (!give_up) return;
      shared_.drainer.waiting().give_up(true);
    }
    rest_a_moment();
    drain();
  }
}

void Transfer::await_captures(std::uint64_t statistics_ns, std::uint64_t blobs_ns) {
  const std::uint64_t start = base::monotonic_ns();
  for (;;) {
    captures_.look();
    deliver_captures();
    const std::uint64_t waited = base::monotonic_ns() - start;
    const bool wait_on = (captures_.awaits_statistics() && waited < statistics_ns) ||
                         (captures_.awaits_blobs() && waited < blobs_ns);
    if (!wait_on) return;
    rest_a_moment();
  }
}

void Transfer::give_up_captures() {
  captures_.give_up();
  deliver_captures();
}

void Transfer::deliver_captures() {
  for (bool more = true; more;) {
    OutgoingBatch& batch = fresh_batch();
    batch.announcements = captures_.take_alarms();
    for (const std::string& alarm : batch.announcements)
      base::log_once(base::LogLevel::kWarning, "profiler", alarm, alarm);
    // Without a sink for them snapshots are only counted.
    more = captures_.collect(kSnapshotsPerBatch, sinks_.needs().snapshots, batch.records);
    if (!sinks_.durable()) snapshots_.fetch_add(captures_.collected(), std::memory_order_relaxed);
    if (!batch.records.empty()) deliver();
  }
}

void Transfer::count(Counters& all) const {
  all.flushed_batches = batches();
  all.snapshots += snapshots_.load(std::memory_order_relaxed);
}

}  // namespace sonde::session
