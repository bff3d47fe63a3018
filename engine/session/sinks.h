// The sinks of one session, in the order in which a batch goes through them: first the spool, which
// commits the journal; then the memory for trace(); then those that are not durable, on a thread
// of their own. So a sink that fails, blocks or is slow holds up neither the spool nor the journal.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/id.h"
#include "engine/session/counters.h"
#include "engine/session/delivery.h"
#include "engine/session/memory_sink.h"
#include "engine/session/moved.h"
#include "engine/session/options.h"
#include "engine/session/outgoing_batch.h"
#include "engine/session/shared.h"
#include "engine/session/sink.h"
#include "engine/session/spool_sink.h"

namespace sonde::session {

// Used by the draining thread, except where a method says otherwise.
class Sinks {
 public:
  Sinks(Shared& shared, const Options& options);

  // What any of them needs. The answer is the same for the whole session.
  Sink::Needs needs() const noexcept { return needs_; }
  // Any thread. Without a durable sink the rings are committed before the other sinks see the
  // batch.
  bool durable() const noexcept { return spool_ != nullptr; }

  // `moved`: how far the batch reaches into the rings, which is committed once the batch is safe.
  // Returns the batch, for the next one to use its memory, or null where it is still needed.
  std::unique_ptr<OutgoingBatch> accept(std::unique_ptr<OutgoingBatch> batch, Moved& moved);
  // For a batch that has to leave no run behind: only trace() shows it.
  void remember(const OutgoingBatch& batch, const Moved& moved);
  // True when nothing is left that only the journal has. Does not wait for the sinks that are not
  // durable: await() does. Each of these has `patience_ns`, from its turn on.
  bool flush(std::uint64_t patience_ns, bool last) noexcept;
  // Any thread. Waits until the sinks that are not durable have everything that was accepted.
  void await(std::uint64_t deadline_ns) noexcept { delivery_.await(deadline_ns); }
  // The session is over: a sink that is not done by now is left behind.
  void close() noexcept { delivery_.close(); }

  // The rest is for the durable sink; without one nothing happens.

  // Batches that are not written yet.
  std::uint64_t waiting() const noexcept;
  // The journal started over: positions in it are void.
  void forget_positions();
  // The session is over, and what could not be written stays in the journal.
  void abandon();
  // Does a slice of the work that can wait; true when there is nothing left to do.
  bool tidy_some() { return !spool_ || spool_->tidy_some(); }
  // Any thread. The path of the file with this span is wanted, once it is written.
  void find(const base::Id& span);
  // "": it is not written. For the draining thread, or while no other thread records.
  std::string found_in() const { return spool_ ? spool_->found_in() : std::string(); }
  // Any thread.
  void count(Counters& all) const;

 private:
  Sinks(Shared& shared, const Options& options, const std::vector<std::shared_ptr<Sink>>& others);

  bool store(const OutgoingBatch& batch, const Moved& moved) noexcept;
  bool store_held_back() noexcept;
  void give_up_held_back(Moved& next) noexcept;
  void skip(const Moved& moved);

  std::unique_ptr<SpoolSink> spool_;
  MemorySink memory_;
  Delivery delivery_;
  Sink::Needs needs_;
  // A batch for which the spool has thrown (no memory). It is tried again before the next batch and
  // at every flush. Until it is written or given up, nothing is committed: the journal has its
  // records.
  std::unique_ptr<OutgoingBatch> held_back_;
  Moved held_back_moved_;  // how far it reaches
};

}  // namespace sonde::session
