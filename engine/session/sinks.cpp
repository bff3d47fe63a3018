#include "engine/session/sinks.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/id.h"
#include "engine/session/counters.h"
#include "engine/session/event_stream_sink.h"
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
  if (!options.lines.empty())
    all.push_back(std::make_shared<LineSink>(options.lines, options.face.prefix()));
  all.insert(all.end(), options.more_sinks.begin(), options.more_sinks.end());
  return all;
}

}  // namespace

Sinks::Sinks(Shared& shared, const Options& options) : Sinks(shared, options, others_of(options)) {}

Sinks::Sinks(Shared& shared, const Options& options,
             const std::vector<std::shared_ptr<Sink>>& others)
    : memory_(shared), delivery_(others) {
  if (options.spool && !options.output_dir.empty()) {
    spool_ = std::make_unique<SpoolSink>(options.output_dir, options.spool_max_bytes);
    needs_ = SpoolSink::kNeeds;
  }
  for (const auto& sink : others) {
    const Sink::Needs needs = sink->needs();
    needs_.snapshots = needs_.snapshots || needs.snapshots;
    needs_.context = needs_.context || needs.context;
  }
}

std::unique_ptr<OutgoingBatch> Sinks::accept(std::unique_ptr<OutgoingBatch> batch, Moved& moved) {
  if (!store_held_back()) give_up_held_back(moved);
  const bool stored = store(*batch, moved);
  hand(memory_, *batch);
  if (stored) return delivery_.accept(std::move(batch));
  held_back_ = std::move(batch);
  held_back_moved_ = std::move(moved);
  return nullptr;
}

bool Sinks::store(const OutgoingBatch& batch, const Moved& moved) noexcept {
  if (spool_) {
    return guarded(SpoolSink::kName, [&] { return spool_->accept(batch, moved), true; });
  }
  return guarded("journal", [&] { return commit(moved), true; });
}

// True when no batch is held back any more.
bool Sinks::store_held_back() noexcept {
  if (!held_back_) return true;
  if (!store(*held_back_, held_back_moved_)) return false;
  delivery_.accept(std::move(held_back_));
  return true;
}

// The records of the batch are lost once `next` is committed, which reaches further.
void Sinks::give_up_held_back(Moved& next) noexcept {
  if (spool_) spool_->lose(*held_back_);
  guarded("journal", [&] {
    held_back_moved_.append(next);
    next = std::move(held_back_moved_);
    return true;
  });
  delivery_.accept(std::move(held_back_));
}

void Sinks::remember(const OutgoingBatch& batch, const Moved& moved) {
  skip(moved);
  if (!batch.records.empty()) hand(memory_, batch);
}

void Sinks::skip(const Moved& moved) {
  if (held_back_) {
    held_back_moved_.append(moved);
  } else if (spool_) {
    spool_->skip(moved);
  } else {
    commit(moved);
  }
}

bool Sinks::flush(std::uint64_t patience_ns, bool last) noexcept {
  bool written = store_held_back();
  if (!written && last && spool_) spool_->lose_snapshots(*held_back_);
  if (spool_) {
    written = guarded(SpoolSink::kName, [&] { return spool_->flush(last); }) && written;
  }
  delivery_.flush(patience_ns, last);
  return written;
}

std::uint64_t Sinks::waiting() const noexcept {
  return (spool_ ? spool_->waiting() : 0) + (held_back_ ? 1 : 0);
}

void Sinks::forget_positions() {
  held_back_moved_ = {};
  if (spool_) spool_->forget_positions();
}

void Sinks::abandon() {
  if (spool_) spool_->abandon();
  if (held_back_) commit(held_back_moved_);
  held_back_.reset();
}

void Sinks::find(const base::Id& span) {
  if (spool_) spool_->find(span);
}

void Sinks::count(Counters& all) const {
  if (spool_) spool_->count(all);
}

}  // namespace sonde::session
