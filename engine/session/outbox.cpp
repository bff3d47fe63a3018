#include "engine/session/outbox.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <new>
#include <string>
#include <string_view>

#include "engine/base/clock.h"
#include "engine/base/deadline.h"
#include "engine/base/id.h"
#include "engine/base/log.h"
#include "engine/base/status.h"
#include "engine/base/swallowed.h"
#include "engine/journal/commit.h"
#include "engine/record/journal.h"
#include "engine/session/contents.h"
#include "engine/session/left_behind.h"
#include "engine/session/moved.h"
#include "engine/session/signals.h"

namespace sonde::session {

void Outbox::send(std::int64_t created_ns, const base::Id& batch_id, std::string_view json,
                  const Moved& moved, const Contents& contents) {
  const bool late = base::monotonic_ns() >= send_deadline_ns_;
  const bool first = waiting_.empty() || (!late && retry(send_deadline_ns_));
  if (first && write(created_ns, batch_id, json, moved)) {
    snapshots_written_.fetch_add(contents.snapshots, std::memory_order_relaxed);
    return;
  }
  waiting_.push_back({created_ns, batch_id, std::string(json), moved, contents});
  waiting_bytes_ += json.size();
  try {
    while (waiting_bytes_ > kMaxWaitingBytes && waiting_.size() > 1) give_up_one();
  } catch (const std::bad_alloc&) {
    // All waiting batches stay. The new one is among them, so the caller must not take it for
    // unsent.
  }
  waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
}

bool Outbox::retry(std::uint64_t deadline_ns) {
  while (!waiting_.empty()) {
    const Waiting& oldest = waiting_.front();
    if (!write(oldest.created_ns, oldest.batch_id, oldest.json, oldest.moved)) return false;
    waiting_bytes_ -= oldest.json.size();
    snapshots_written_.fetch_add(oldest.contents.snapshots, std::memory_order_relaxed);
    waiting_.pop_front();
    waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
    const bool must_end = deadline_ns == base::kNoDeadline && termination_requested() != 0;
    if (must_end || base::monotonic_ns() >= deadline_ns) break;
  }
  return waiting_.empty();
}

bool Outbox::write(std::int64_t created_ns, const base::Id& batch_id, std::string_view json,
                   const Moved& moved) {
  journal::OwnCommit commits(record::Journal::instance().memory());
  announce_tails(moved);
  commits.announce(batch_id, created_ns);
  const base::Status status = directory_.write(created_ns, batch_id, json);
  if (!status.ok()) {
    commits.withdraw();
    failures_.fetch_add(1, std::memory_order_relaxed);
    base::note_swallowed("spool");
    trouble_ = status.text();
    const bool in_journal = record::Journal::instance().on_file();
    base::log_once(
        base::LogLevel::kWarning, "flush", "spool-write",
        trouble_ +
            "; batches wait in memory and are tried again; beyond 64 MiB the oldest are dropped" +
            (in_journal ? "" : ", and those that still wait when the run ends are lost"),
        "free space or make " + directory_.path() + " writable");
    return false;
  }
  commit(moved);
  return true;
}

void Outbox::skip(const Moved& moved) {
  if (waiting_.empty()) return commit(moved);
  // Committed now, these positions would take the records of the waiting batches along. They are
  // committed with the newest of those.
  waiting_.back().moved.append(moved);
}

void Outbox::forget_positions() {
  for (Waiting& batch : waiting_) batch.moved = {};
}

void Outbox::abandon() {
  for (const Waiting& batch : waiting_) commit(batch.moved);
  waiting_.clear();
  waiting_bytes_ = 0;
}

void Outbox::give_up_one() {
  const auto victim = std::find_if(waiting_.begin(), waiting_.end(), [](const Waiting& batch) {
    return batch.contents.snapshots != 0;
  });
  give_up(victim == waiting_.end() ? waiting_.begin() : victim);
}

std::uint64_t Outbox::drop_snapshots() {
  const std::uint64_t before = snapshots_lost();
  for (std::size_t i = waiting_.size(); i-- > 0;) {
    const auto batch = waiting_.begin() + static_cast<std::ptrdiff_t>(i);
    if (batch->contents.snapshots != 0) give_up(batch);
  }
  waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
  return snapshots_lost() - before;
}

LeftBehind Outbox::left_behind() const {
  LeftBehind left{waiting_.size(), {}, given_up_, trouble_};
  for (const Waiting& batch : waiting_) left.waiting.add(batch.contents);
  return left;
}

void Outbox::lose(const Contents& contents) noexcept {
  lose_snapshots(contents.snapshots);
  given_up_.add(contents);
  lost_.fetch_add(1, std::memory_order_relaxed);
}

// The positions of the batch are committed after those of the batches before it.
void Outbox::give_up(std::deque<Waiting>::iterator batch) {
  if (batch == waiting_.begin()) {
    commit(batch->moved);
  } else {
    std::prev(batch)->moved.append(batch->moved);
  }
  waiting_bytes_ -= batch->json.size();
  lose(batch->contents);
  waiting_.erase(batch);
}

}  // namespace sonde::session
