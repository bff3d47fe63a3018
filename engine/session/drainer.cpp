#include "engine/session/drainer.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>

#include "engine/base/clock.h"
#include "engine/base/level_names.h"
#include "engine/base/swallowed.h"
#include "engine/journal/ring_reader.h"
#include "engine/model/trace.h"
#include "engine/probe/device_queue.h"
#include "engine/probe/gpu_clock.h"
#include "engine/record/block_pool.h"
#include "engine/record/journal.h"
#include "engine/record/names.h"
#include "engine/record/peek.h"
#include "engine/record/ring.h"
#include "engine/session/moved.h"

namespace sonde::session {

using record::Journal;

Drainer::Drainer()
    : view_{Journal::instance().memory(), record::kMaxBlocks}, reader_(view_, &waiting_) {}

bool Waiting::waits_for(std::uint64_t end_ns) const {
  return !give_up_ && base::monotonic_ns() < end_ns + kGpuPatienceNs;
}

bool Waiting::resolve(const journal::GpuEvents& events, model::Span& span) {
  const auto [start, end, end_ns, name] = events;
  std::int64_t ns = 0;
  const bool queue = probe::is_queue_mark(start);
  switch (queue ? probe::queue_elapsed(start, end, ns) : probe::gpu_elapsed(start, end, ns)) {
    case probe::GpuTime::kKnown:
      span.gpu_ns = ns;
      break;
    case probe::GpuTime::kPending:
      if (waits_for(end_ns)) return false;
      break;
    case probe::GpuTime::kUnknown:
      break;
  }
  if (queue) {
    probe::queue_release(start);
    probe::queue_release(end);
    return true;
  }
  static const std::uint32_t kStep = record::intern(base::kStep);
  if (const std::int64_t bytes = probe::gpu_peak(end); bytes >= 0 && name == kStep)
    span.memory_peak_bytes = bytes;
  probe::gpu_release(start);
  probe::gpu_release(end);
  return true;
}

namespace {

// Finds the GPU times that are known already, and keeps the events: the drain thread will ask for
// them again.
class GpuPeek : public journal::OwnSpans {
 public:
  journal::Uncertain uncertain(std::uint64_t) override { return journal::Uncertain::kRead; }
  bool resolve(const journal::GpuEvents& events, model::Span& span) override {
    std::int64_t ns = 0;
    if (probe::is_queue_mark(events.start) || probe::is_queue_mark(events.end)) return true;
    if (probe::gpu_elapsed(events.start, events.end, ns) == probe::GpuTime::kKnown)
      span.gpu_ns = ns;
    return true;
  }
};

}  // namespace

void Drainer::peek(model::Batch& batch) const {
  Journal& journal = Journal::instance();
  GpuPeek gpu;
  journal::RingReader reader(view_, &gpu);
  for (std::uint32_t i = 0; i < journal.lane_count(); ++i) {
    record::RingTail cursor = i < cursors_.size() ? cursors_[i] : record::RingTail{};
    reader.read(journal.lane(i), cursor, ~std::size_t{0}, batch, nullptr);
  }
}

void Drainer::begin_pass() {
  Journal& journal = Journal::instance();
  cut_short_ = false;
  goals_.resize(journal.lane_count());
  cursors_.resize(std::max(cursors_.size(), goals_.size()));
  for (std::uint32_t i = 0; i < goals_.size(); ++i) goals_[i] = record::ring_end(journal.lane(i));
}

bool Drainer::collect(std::size_t limit, model::Batch& batch, Moved& moved) {
  bool more = false;
  const std::size_t before = batch.record_count();
  moved.tails.reserve(moved.tails.size() + goals_.size());
  for (std::uint32_t i = 0; i < goals_.size(); ++i) {
    const std::size_t done = batch.record_count() - before;
    record::RingTail& cursor = cursors_[i];
    const std::uint64_t from = cursor.position;
    bool whole = true;
    try {
      more = reader_.read(Journal::instance().lane(i), cursor, limit - std::min(limit, done), batch,
                          &moved.blocks, goals_[i]) ||
             more;
    } catch (const std::bad_alloc&) {
      whole = false;
    }
    if (cursor.position != from) moved.tails.emplace_back(i, cursor);
    if (whole) continue;
    // What was read is a batch; the next pass goes on from there.
    base::note_swallowed("flush");
    cut_short_ = true;
    if (batch.record_count() == before) throw std::bad_alloc();
    return false;
  }
  return more;
}

bool Drainer::has_unread() const {
  Journal& journal = Journal::instance();
  for (std::uint32_t i = 0; i < journal.lane_count(); ++i) {
    const std::uint64_t read = i < cursors_.size() ? cursors_[i].position : 0;
    if (record::ring_end(journal.lane(i)) != read) return true;
  }
  return false;
}

void Drainer::append_open(model::Batch& batch) const {
  const std::size_t first = batch.spans.size();
  record::see_open_scopes([&](const record::PeekedScope& open) {
    batch.spans.push_back(
        reader_.open_span(open.scope(), open.text(), open.thread_id(), batch.arena));
  });
  const std::int64_t now = base::to_wall_ns(Journal::instance().anchor(), base::monotonic_ns());
  for (std::size_t i = first; i < batch.spans.size(); ++i) batch.spans[i].seen_ns = now;
}

void Drainer::release_blocks() {
  Journal& journal = Journal::instance();
  const std::size_t known = std::min<std::size_t>(cursors_.size(), journal.lane_count());
  for (std::uint32_t i = 0; i < known; ++i) record::release_ring(journal.lane(i), cursors_[i]);
  journal.compact();
}

}  // namespace sonde::session
