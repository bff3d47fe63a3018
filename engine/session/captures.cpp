#include "engine/session/captures.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/id.h"
#include "engine/base/log.h"
#include "engine/base/swallowed.h"
#include "engine/codec/encode_snapshot.h"
#include "engine/model/trace.h"
#include "engine/snapshot/capture.h"

namespace sonde::session {

using snapshot::Capture;

bool Captures::add(Capture capture) {
  const std::size_t records = capture.size();
  bool full = false;
  {
    const std::lock_guard lock(lock_);
    full = waiting_records_ != 0 && waiting_records_ + records > kMaxRecords;
    if (!closed_ && !full) {
      waiting_records_ += records;
      incoming_.push_back(std::move(capture));
      return true;
    }
  }
  lost_.fetch_add(records, std::memory_order_relaxed);
  if (full) {
    base::log_once(base::LogLevel::kWarning, "snapshots.stats", "snapshots-dropped",
                   "snapshots come faster than they can be written and the newest are dropped");
  }
  return false;
}

bool Captures::look() {
  {
    const std::lock_guard lock(lock_);
    for (Capture& capture : incoming_)
      held_.push_back({std::move(capture), base::monotonic_ns(), 0, false});
    incoming_.clear();
  }
  awaits_statistics_ = awaits_blobs_ = false;
  bool any = false;
  for (Held& held : held_) {
    complete(held, false);
    any = any || (!held.capture.pending && !held.capture.blob);
  }
  examine_new();
  return any || alarms_.due();
}

void Captures::complete(Held& held, bool give_up) {
  Capture& capture = held.capture;
  if (capture.pending) {
    const bool late = give_up || base::monotonic_ns() - held.since_ns > kPatienceNs;
    if (const bool ready = capture.pending->ready(); ready || late) {
      // Taken out of the capture first, because complete() writes into the capture.
      const auto pending = std::move(capture.pending);
      pending->complete(capture, !ready);
    } else {
      awaits_statistics_ = true;
    }
  }
  if (capture.blob) {
    if (const bool ready = capture.blob->ready(); ready || give_up) {
      const auto blob = std::move(capture.blob);
      blob->complete(capture, !ready);
    } else {
      awaits_blobs_ = true;
    }
  }
}

// Gradients first, because gradients that are not finite make the weights so.
void Captures::examine_new() {
  for (const snapshot::Kind kind : {snapshot::Kind::kGradients, snapshot::Kind::kWeights}) {
    for (Held& held : held_) {
      if (held.capture.kind == kind && !held.capture.pending && !std::exchange(held.examined, true))
        alarms_.examine(held.capture);
    }
  }
}

void Captures::give_up() {
  look();
  for (Held& held : held_) complete(held, true);
  examine_new();
  awaits_statistics_ = awaits_blobs_ = false;
}

void Captures::close() {
  const std::lock_guard lock(lock_);
  closed_ = true;
  for (const Capture& capture : incoming_)
    lost_.fetch_add(capture.size(), std::memory_order_relaxed);
  incoming_.clear();
}

// False: there is no memory for the record.
bool Captures::append(const Capture& capture, std::size_t record, model::Batch& batch) noexcept {
  const std::size_t before = batch.snapshots.size();
  try {
    model::Snapshot& snapshot = batch.snapshots.emplace_back();
    snapshot.id = base::make_id(key_, next_id_++);
    snapshot.span_id = capture.span_id;
    json_.clear();
    codec::encode_snapshot(json_, snapshot::record_of(capture, record, snapshot.id));
    snapshot.json = batch.arena.copy(json_.view());
    return true;
  } catch (const std::exception&) {
    base::note_swallowed("snapshots");
    if (batch.snapshots.size() > before) batch.snapshots.pop_back();
    return false;
  }
}

bool Captures::collect(std::size_t limit, bool encode, model::Batch& batch) {
  collected_ = 0;
  for (model::Mark& mark : alarms_.take_marks(batch.arena)) {
    mark.id = base::make_id(key_, next_id_++);
    batch.marks.push_back(mark);
  }
  bool more = false;
  std::size_t taken = 0;
  for (Held& held : held_) {
    const Capture& capture = held.capture;
    if (capture.pending || capture.blob) continue;
    const std::size_t end = std::min(capture.size(), held.next + limit - taken);
    for (; held.next < end; ++held.next, ++taken) {
      if (!encode || append(capture, held.next, batch)) {
        ++collected_;
      } else {
        lost_.fetch_add(1, std::memory_order_relaxed);
      }
    }
    more = more || held.next < capture.size();
  }
  const auto done = [](const Held& held) {
    return !held.capture.pending && !held.capture.blob && held.next == held.capture.size();
  };
  std::erase_if(held_, done);
  const std::lock_guard lock(lock_);
  waiting_records_ -= taken;
  return more;
}

}  // namespace sonde::session
