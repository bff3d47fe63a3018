// Snapshots of tensors on their way through a session.
#include <time.h>

#include <algorithm>

#include "engine/base/log.h"
#include "engine/record/journal.h"
#include "engine/session/session.h"

namespace sonde::session {

using base::LogLevel;
using record::Journal;

namespace {

constexpr std::size_t kSnapshotsPerBatch = 1024;  // about a kilobyte each

}  // namespace

snapshot::BlobRoom Session::reserve_blob(std::uint64_t bytes) {
  if (blobs_) return blobs_->reserve(bytes);
  say_no_place_for_blobs();
  return {};
}

void Session::say_no_place_for_blobs() const noexcept {
  base::log_once(LogLevel::kWarning, "cirron.snapshots.blob", "blob-nowhere",
                 "there is no output directory for raw tensors, only their statistics are kept: "
                 "pass profile(path=...) and output=\"spool\"");
}

void Session::add_capture(snapshot::Capture capture, std::unique_ptr<snapshot::BlobSource> blob,
                          bool more) {
  if (asleep()) awaken();
  const bool wanted = blob || std::ranges::count(capture.in_blob, true) != 0;
  if (wanted && !blobs_) {
    say_no_place_for_blobs();
  } else if (blob) {
    capture.blob = blobs_->write(capture.span_id, capture.kind, std::move(blob));
  } else if (wanted) {
    blobs_->lose();
  }
  if (!captures_.add(std::move(capture)) || more) return;
  // At once, since the journal knows nothing of it; but where epochs are short, several together.
  const std::uint64_t now = base::monotonic_ns();
  std::uint64_t last = capture_wake_ns_.load(std::memory_order_relaxed);
  if (now - last >= kCapturesTogetherNs && capture_wake_ns_.compare_exchange_strong(last, now)) {
    Journal::instance().wake().raise();
  } else {
    captures_wait_.store(true);
  }
}

// Writes the records of captures that are complete. Waits as long as it may for what is under way.
void Session::await_captures(std::uint64_t statistics_ns, std::uint64_t blobs_ns) {
  const std::uint64_t start = base::monotonic_ns();
  for (;;) {
    captures_.look();
    deliver_captures();
    const std::uint64_t waited = base::monotonic_ns() - start;
    const bool wait_on = (captures_.awaits_statistics() && waited < statistics_ns) ||
                         (captures_.awaits_blobs() && waited < blobs_ns);
    if (!wait_on) return;
    const timespec moment{0, 500'000};
    ::nanosleep(&moment, nullptr);
  }
}

void Session::deliver_captures() {
  for (const std::string& alarm : captures_.take_alarms()) {
    base::log_once(LogLevel::kWarning, "cirron.profiler", alarm, alarm);
    lines_.announce(alarm);
  }
  const bool encode = outbox_ || options_.on_batch;
  for (bool more = true; more;) {
    batch_.clear();
    earlier_.clear();
    more = captures_.collect(kSnapshotsPerBatch, encode, batch_);
    // Who reads snapshots reads files or the transport; with neither there is nobody to keep them
    // for.
    if (!outbox_) snapshots_.fetch_add(captures_.collected(), std::memory_order_relaxed);
    if (batch_.empty()) continue;
    {
      const std::lock_guard lock(shared_.lock);
      shared_.memory.add(batch_);  // marks only
    }
    deliver({});
  }
}

}  // namespace sonde::session
