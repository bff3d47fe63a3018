#include "engine/session/outbox.h"

#include "engine/base/log.h"
#include "engine/record/journal.h"
#include "engine/spool/commit.h"

namespace sonde::session {

void Outbox::send(std::int64_t created_ns, const base::Id& batch_id, std::string_view json,
                  Moved moved) {
  if (retry() && write(created_ns, batch_id, json, moved)) return;
  waiting_.push_back({created_ns, batch_id, std::string(json), std::move(moved)});
  waiting_bytes_ += json.size();
  while (waiting_bytes_ > kMaxWaitingBytes && waiting_.size() > 1) give_up_oldest();
  waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
}

bool Outbox::retry() {
  while (!waiting_.empty()) {
    const Waiting& oldest = waiting_.front();
    if (!write(oldest.created_ns, oldest.batch_id, oldest.json, oldest.moved)) return false;
    waiting_bytes_ -= oldest.json.size();
    waiting_.pop_front();
    waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
  }
  return true;
}

bool Outbox::write(std::int64_t created_ns, const base::Id& batch_id, std::string_view json,
                   const Moved& moved) {
  record::Header& header = record::Journal::instance().header();
  announce_tails(moved);
  spool::announce(header, batch_id, created_ns, false);
  const base::Status status = directory_.write(created_ns, batch_id, json);
  if (!status.ok()) {
    header.pending.store(0, std::memory_order_release);
    failures_.fetch_add(1, std::memory_order_relaxed);
    base::log_once(base::LogLevel::kWarning, "cirron.flush", "spool-write",
                   status.text() +
                       "; batches wait in memory and are tried again, the oldest is dropped beyond "
                       "64 MiB: free space or make " +
                       directory_.path() + " writable");
    return false;
  }
  commit(moved);
  return true;
}

void Outbox::skip(Moved moved) {
  if (waiting_.empty()) return commit(moved);
  // Committed now, it would take the records of waiting batches along. It goes with the newest of
  // them.
  Moved& newest = waiting_.back().moved;
  newest.tails.insert(newest.tails.end(), moved.tails.begin(), moved.tails.end());
  newest.blocks.insert(newest.blocks.end(), moved.blocks.begin(), moved.blocks.end());
}

void Outbox::forget_positions() {
  for (Waiting& batch : waiting_) batch.moved = {};
}

void Outbox::abandon() {
  for (const Waiting& batch : waiting_) commit(batch.moved);
  waiting_.clear();
  waiting_bytes_ = 0;
}

void Outbox::give_up_oldest() {
  commit(waiting_.front().moved);
  waiting_bytes_ -= waiting_.front().json.size();
  waiting_.pop_front();
  lost_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace sonde::session
