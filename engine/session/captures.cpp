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
  return any || alarm_.mark_due;
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
  if (!capture.pending && !std::exchange(held.examined, true)) examine(capture);
  if (capture.blob) {
    if (const bool ready = capture.blob->ready(); ready || give_up) {
      const auto blob = std::move(capture.blob);
      blob->complete(capture, !ready);
    } else {
      awaits_blobs_ = true;
    }
  }
}

void Captures::give_up() {
  look();
  for (Held& held : held_) complete(held, true);
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
  if (alarm_.mark_due) append_mark(batch);
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

void Captures::examine(const Capture& capture) {
  if (alarm_.seen) return;
  const std::size_t found = first_non_finite(capture);
  if (found == capture.size()) return;
  alarm_.seen = alarm_.mark_due = true;
  alarm_.tensor = (*capture.catalogue)[found].name;
  alarm_.span_id = capture.span_id;
  alarm_.ts_ns = capture.ts_ns;
  alarm_.text = "[cirron] first non-finite value: ";
  model::Span label;  // a label is one line, whatever the name holds
  label.name = alarm_.tensor;
  model::append_label(alarm_.text, label);
  const char* separator = " at ";
  for (const auto& [name, index] :
       {std::pair("epoch", capture.epoch), std::pair("step", capture.step)}) {
    if (index < 0) continue;
    const std::string number = std::to_string(index);
    alarm_.text += std::exchange(separator, " ") + std::string(name) + "[" + number + "]";
    if (!alarm_.attrs.empty()) alarm_.attrs += ',';
    alarm_.attrs += '"' + std::string(name) + "\":" + number;
  }
}

std::string Captures::take_alarm() { return std::exchange(alarm_.text, {}); }

void Captures::append_mark(model::Batch& batch) {
  alarm_.mark_due = false;
  model::Mark& mark = batch.marks.emplace_back();
  mark.id = base::make_id(key_, next_id_++);
  mark.span_id = alarm_.span_id;
  mark.name = "first_non_finite";
  mark.type = model::ValueType::kString;
  // As long as the value of any mark may be, cut between two code points.
  std::size_t length = std::min<std::size_t>(alarm_.tensor.size(), 256);
  while (length < alarm_.tensor.size() && (alarm_.tensor[length] & 0xC0) == 0x80) --length;
  mark.text = batch.arena.copy(std::string_view(alarm_.tensor).substr(0, length));
  mark.attrs = batch.arena.copy(alarm_.attrs);
  mark.ts_ns = alarm_.ts_ns;
}

}  // namespace sonde::session
