#include "engine/session/capture_queue.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/record/journal.h"
#include "engine/session/counters.h"
#include "engine/snapshot/blob.h"
#include "engine/snapshot/capture.h"

namespace sonde::session {

namespace {

void say_no_place_for_blobs() noexcept {
  base::log_once(base::LogLevel::kWarning, "snapshots.blob", "blob-nowhere",
                 "there is no output directory for raw tensors, only their statistics are kept");
}

}  // namespace

CaptureQueue::CaptureQueue(const std::string& output_dir, const snapshot::BlobOptions& options) {
  if (output_dir.empty()) return;
  blobs_.emplace(base::join_path(output_dir, "snapshots"), options,
                 [] { record::Journal::instance().wake().raise(); });
}

snapshot::BlobRoom CaptureQueue::reserve_blob(std::uint64_t bytes) {
  if (blobs_) return blobs_->reserve(bytes);
  say_no_place_for_blobs();
  return {};
}

void CaptureQueue::add(snapshot::Capture capture, std::unique_ptr<snapshot::BlobSource> blob,
                       bool more) {
  const bool wanted = blob || std::ranges::count(capture.in_blob, true) != 0;
  if (wanted && !blobs_) {
    say_no_place_for_blobs();
  } else if (blob) {
    capture.blob = blobs_->write(capture.span_id, capture.kind, std::move(blob));
  } else if (wanted) {
    blobs_->lose();
  }
  if (!captures_.add(std::move(capture)) || more) return;
  // The drain thread is woken at once, because the journal has no copy of a capture. Where epochs
  // are short, it is woken once for several captures.
  const std::uint64_t now = base::monotonic_ns();
  std::uint64_t last = last_wake_ns_.load(std::memory_order_relaxed);
  if (now - last >= kCapturesTogetherNs && last_wake_ns_.compare_exchange_strong(last, now)) {
    record::Journal::instance().wake().raise();
  } else {
    unannounced_.store(true);
  }
}

void CaptureQueue::hurry() noexcept {
  if (blobs_) blobs_->hurry();
}

void CaptureQueue::stop_writing() {
  if (blobs_) blobs_->stop();
}

void CaptureQueue::count(Counters& all) const {
  all.blobs = blobs_ ? blobs_->written() : 0;
  all.dropped_blobs = blobs_ ? blobs_->lost() : 0;
  all.dropped_snapshots += captures_.lost();
}

}  // namespace sonde::session
