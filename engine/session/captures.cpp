#include "engine/session/captures.h"

#include <algorithm>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/model/line.h"

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
    base::log_once(base::LogLevel::kWarning, "cirron.snapshots.stats", "snapshots-dropped",
                   "snapshots come faster than they can be written and the newest are dropped; "
                   "snapshot_drop_count in health() counts them: take them less often");
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
  return any || !marks_due_.empty();
}

void Captures::complete(Held& held, bool give_up) {
  Capture& capture = held.capture;
  if (capture.pending) {
    const bool late = give_up || base::monotonic_ns() - held.since_ns > kPatienceNs;
    if (const bool ready = capture.pending->ready(); ready || late) {
      // Out of the capture first, because it writes into it.
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

// Gradients first: they are the cause.
void Captures::examine_new() {
  for (const snapshot::Kind kind : {snapshot::Kind::kGradients, snapshot::Kind::kWeights}) {
    for (Held& held : held_) {
      if (held.capture.kind == kind && !held.capture.pending && !std::exchange(held.examined, true))
        examine(held.capture);
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

bool Captures::collect(std::size_t limit, bool encode, model::Batch& batch) {
  collected_ = 0;
  append_marks(batch);
  bool more = false;
  for (Held& held : held_) {
    const Capture& capture = held.capture;
    if (capture.pending || capture.blob) continue;
    const std::size_t end = std::min(capture.size(), held.next + limit - collected_);
    for (; held.next < end; ++held.next, ++collected_) {
      if (!encode) continue;
      model::Snapshot& snapshot = batch.snapshots.emplace_back();
      snapshot.id = base::make_id(key_, next_id_++);
      snapshot.span_id = capture.span_id;
      json_.clear();
      snapshot::encode(json_, capture, held.next, snapshot.id);
      snapshot.json = batch.arena.copy(json_.view());
    }
    more = more || held.next < capture.size();
  }
  const auto done = [](const Held& held) {
    return !held.capture.pending && !held.capture.blob && held.next == held.capture.size();
  };
  std::erase_if(held_, done);
  const std::lock_guard lock(lock_);
  waiting_records_ -= collected_;
  return more;
}

// Once of the gradients and once of the weights: mixed precision finds its scale by gradients that
// overflow, which shall not use up the word on weights. What belongs together is said once: weights
// after the gradients that spoilt them, anything after weights.
void Captures::examine(const Capture& capture) {
  const bool weights = capture.kind == snapshot::Kind::kWeights;
  if (weights ? weights_alarmed_ : weights_alarmed_ || gradients_alarmed_) return;
  const std::size_t found = first_non_finite(capture);
  if (found == capture.size()) return;
  const bool said = weights && gradients_alarmed_ && alarmed_span_ == capture.span_id;
  (weights ? weights_alarmed_ : gradients_alarmed_) = true;
  if (said) return;
  alarmed_span_ = capture.span_id;
  Alarm alarm;
  alarm.tensor = (*capture.catalogue)[found].name;
  alarm.span_id = capture.span_id;
  alarm.ts_ns = capture.ts_ns;
  std::string text = "[cirron] first non-finite value: ";
  model::append_clean(text, alarm.tensor);
  const char* separator = " at ";
  for (const auto& [name, index] :
       {std::pair("epoch", capture.epoch), std::pair("step", capture.step)}) {
    if (index < 0) continue;
    const std::string number = std::to_string(index);
    text += std::exchange(separator, " ") + std::string(name) + "[" + number + "]";
    if (!alarm.attrs.empty()) alarm.attrs += ',';
    alarm.attrs += '"' + std::string(name) + "\":" + number;
  }
  texts_due_.push_back(std::move(text));
  marks_due_.push_back(std::move(alarm));
}

std::vector<std::string> Captures::take_alarms() { return std::exchange(texts_due_, {}); }

void Captures::append_marks(model::Batch& batch) {
  for (const Alarm& alarm : marks_due_) {
    model::Mark& mark = batch.marks.emplace_back();
    mark.id = base::make_id(key_, next_id_++);
    mark.span_id = alarm.span_id;
    mark.name = "first_non_finite";
    mark.type = model::ValueType::kString;
    // As long as the value of any mark may be, cut between two code points.
    std::size_t length = std::min<std::size_t>(alarm.tensor.size(), 256);
    while (length < alarm.tensor.size() && (alarm.tensor[length] & 0xC0) == 0x80) --length;
    mark.text = batch.arena.copy(std::string_view(alarm.tensor).substr(0, length));
    mark.attrs = batch.arena.copy(alarm.attrs);
    mark.ts_ns = alarm.ts_ns;
  }
  marks_due_.clear();
}

}  // namespace sonde::session
