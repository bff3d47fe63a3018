#include "engine/session/sinks.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/id.h"
#include "engine/session/contents.h"
#include "engine/session/counters.h"
#include "engine/session/delivery.h"
#include "engine/session/event_stream_sink.h"
#include "engine/session/left_behind.h"
#include "engine/session/line_outlet.h"
#include "engine/session/line_sink.h"
#include "engine/session/moved.h"
#include "engine/session/options.h"
#include "engine/session/outgoing_batch.h"
#include "engine/session/shared.h"
#include "engine/session/sink.h"
#include "engine/session/spool_sink.h"

namespace sonde::session {

namespace {

// The sinks that are not durable.
std::vector<std::shared_ptr<Sink>> others_of(const Options& options) {
  std::vector<std::shared_ptr<Sink>> all;
  if (options.on_batch) all.push_back(std::make_shared<EventStreamSink>(options.on_batch));
  std::map<std::string, std::vector<LineOutlet>> by_target;
  for (const LineOutlet& outlet : options.lines) by_target[outlet.target].push_back(outlet);
  for (auto& [target, outlets] : by_target)
    all.push_back(std::make_shared<LineSink>(std::move(outlets), options.face.prefix()));
  all.insert(all.end(), options.more_sinks.begin(), options.more_sinks.end());
  return all;
}

}  // namespace

Sinks::Sinks(Shared& shared, const Options& options) : memory_(shared) {
  if (!options.output_dir.empty()) {
    spool_ = std::make_unique<SpoolSink>(options.output_dir, options.spool_max_bytes);
    add_needs(*spool_);
  }
  for (const auto& sink : others_of(options)) {
    deliveries_.push_back(std::make_unique<Delivery>(sink));
    add_needs(*sink);
  }
}

void Sinks::add_needs(const Sink& sink) noexcept {
  const Sink::Needs needs = sink.needs();
  needs_.snapshots = needs_.snapshots || needs.snapshots;
  needs_.context = needs_.context || needs.context;
}

std::shared_ptr<OutgoingBatch> Sinks::accept(std::shared_ptr<OutgoingBatch> batch) {
  if (!store_held_back()) give_up_held_back(batch->moved);
  const bool stored = store(batch);
  hand(memory_, batch);
  if (stored) return deliver(std::move(batch));
  held_back_ = std::move(batch);
  return nullptr;
}

bool Sinks::store(const std::shared_ptr<const OutgoingBatch>& batch) noexcept {
  if (spool_) return hand(*spool_, batch);
  return guarded("journal", [&] { return commit(batch->moved), true; });
}

std::shared_ptr<OutgoingBatch> Sinks::deliver(std::shared_ptr<OutgoingBatch> batch) noexcept {
  // The pointers that there are without deliveries are this one and those of sinks that are served
  // on this thread.
  if (deliveries_.empty()) return batch.use_count() == 1 ? std::move(batch) : nullptr;
  guarded("delivery", [&] {
    const std::size_t bytes = batch->bytes();
    for (const auto& each : deliveries_) each->accept(batch, bytes);
    return true;
  });
  return nullptr;
}

// True when no batch is held back any more.
bool Sinks::store_held_back() noexcept {
  if (!held_back_) return true;
  if (!store(held_back_)) return false;
  deliver(std::move(held_back_));
  return true;
}

// The records of the batch are lost once `next` is committed, which reaches further.
void Sinks::give_up_held_back(Moved& next) noexcept {
  if (spool_) spool_->lose(*held_back_);
  guarded("journal", [&] {
    held_back_->moved.append(next);
    next = std::move(held_back_->moved);
    return true;
  });
  deliver(std::move(held_back_));
}

void Sinks::remember(const std::shared_ptr<const OutgoingBatch>& batch) {
  skip(batch->moved);
  if (!batch->records.empty()) hand(memory_, batch);
}

void Sinks::skip(const Moved& moved) {
  if (held_back_) {
    held_back_->moved.append(moved);
  } else if (spool_) {
    spool_->skip(moved);
  } else {
    commit(moved);
  }
}

void Sinks::limit_spool(std::uint64_t deadline_ns) noexcept {
  spool_deadline_ns_ = deadline_ns;
  if (spool_) spool_->retry_until(deadline_ns);
}

bool Sinks::flush(std::uint64_t patience_ns, bool last) noexcept {
  bool written = store_held_back();
  if (!written && last && spool_) spool_->lose_snapshots(*held_back_);
  if (spool_) {
    const auto flush_spool = [&] { return spool_->flush(spool_deadline_ns_, last); };
    written = guarded(spool_->name(), flush_spool) && written;
  }
  for (const auto& each : deliveries_) each->flush(patience_ns, last);
  return written;
}

void Sinks::await(std::uint64_t deadline_ns) noexcept {
  for (const auto& each : deliveries_) each->await(deadline_ns);
}

void Sinks::close() noexcept {
  for (const auto& each : deliveries_) each->close();
}

LeftBehind Sinks::left_behind() const {
  LeftBehind left;
  if (!spool_) return left;
  left = spool_->left_behind();
  if (held_back_) {
    ++left.batches;
    left.waiting.add(Contents::of(held_back_->records));
  }
  return left;
}

void Sinks::forget_positions() {
  if (held_back_) held_back_->moved.clear();
  if (spool_) spool_->forget_positions();
}

void Sinks::abandon() {
  if (spool_) spool_->abandon();
  if (held_back_) commit(held_back_->moved);
  held_back_.reset();
}

void Sinks::find(const base::Id& span) {
  if (spool_) spool_->find(span);
}

void Sinks::count(Counters& all) const {
  if (spool_) spool_->count(all);
  for (const auto& each : deliveries_) each->count(all);
}

}  // namespace sonde::session
