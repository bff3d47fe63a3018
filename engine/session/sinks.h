// The sinks of one session, in the order in which a batch goes through them: first the spool, which
// commits the journal; then the memory for trace(); then those that are not durable, on a thread
// of their own each. So a sink that fails, blocks or is slow hurts nothing but itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/deadline.h"
#include "engine/base/id.h"
#include "engine/session/counters.h"
#include "engine/session/delivery.h"
#include "engine/session/left_behind.h"
#include "engine/session/memory_sink.h"
#include "engine/session/moved.h"
#include "engine/session/options.h"
#include "engine/session/outgoing_batch.h"
#include "engine/session/shared.h"
#include "engine/session/sink.h"
#include "engine/session/spool_sink.h"

namespace sonde::session {

// Used by the draining thread (drain_loop.h), except where a method says otherwise.
class Sinks {
 public:
  Sinks(Shared& shared, const Options& options);

  // What any of them needs. The answer is the same for the whole session.
  Sink::Needs needs() const noexcept { return needs_; }
  // Any thread. Without a durable sink the rings are committed before the other sinks see the
  // batch.
  bool durable() const noexcept { return spool_ != nullptr; }

  // Returns the batch if no sink needs it any more, so that the next batch can use its memory;
  // otherwise null.
  std::shared_ptr<OutgoingBatch> accept(std::shared_ptr<OutgoingBatch> batch);
  // For a batch that is not to be stored, because it is empty or has to leave no run behind: only
  // trace() shows it.
  void remember(const std::shared_ptr<const OutgoingBatch>& batch);
  // Sets the deadline of the spool for trying again what could not be written, in accept() and in
  // flush(). Until it is set there is none.
  void limit_spool(std::uint64_t deadline_ns) noexcept;
  // True when nothing is left that only the journal has. Each sink but the spool has `patience_ns`,
  // from its turn on; await() waits for them.
  bool flush(std::uint64_t patience_ns, bool last) noexcept;
  // Any thread. Waits until the sinks that are not durable have everything that was accepted.
  void await(std::uint64_t deadline_ns) noexcept;
  // The session is over: a sink that has not finished is left behind.
  void close() noexcept;

  // The rest is for the durable sink; without one nothing happens.

  // For the draining thread. The batches that are not written yet, and what was given up.
  LeftBehind left_behind() const;
  // The journal started over: positions in it are void.
  void forget_positions();
  // The session is over, and what could not be written stays in the journal.
  void abandon();
  // Does a slice of the work that can wait; true when there is nothing left to do.
  bool tidy_some() { return !spool_ || spool_->tidy_some(); }
  // Any thread. Asks for the path of the file with this span. found_in() gives it once the file is
  // written.
  void find(const base::Id& span);
  // "": it is not written. For the draining thread, or while no other thread records.
  std::string found_in() const { return spool_ ? spool_->found_in() : std::string(); }
  // Any thread.
  void count(Counters& all) const;

 private:
  void add_needs(const Sink& sink) noexcept;
  bool store(const std::shared_ptr<const OutgoingBatch>& batch) noexcept;
  std::shared_ptr<OutgoingBatch> deliver(std::shared_ptr<OutgoingBatch> batch) noexcept;
  bool store_held_back() noexcept;
  void give_up_held_back(Moved& next) noexcept;
  void skip(const Moved& moved);

  std::unique_ptr<SpoolSink> spool_;
  std::uint64_t spool_deadline_ns_ = base::kNoDeadline;
  MemorySink memory_;
  std::vector<std::unique_ptr<Delivery>> deliveries_;
  Sink::Needs needs_;
  // A batch for which the spool has thrown (no memory). It is tried again before the next batch and
  // at every flush. Until it is written or given up, nothing is committed: the journal has its
  // records.
  std::shared_ptr<OutgoingBatch> held_back_;
};

}  // namespace sonde::session
