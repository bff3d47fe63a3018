// Hands batches to one sink that is not durable, on a thread of its own, so that a sink that blocks
// (a full pipe, a slow handler) holds up neither the spool and the journal nor the other sinks. The
// thread is started with the first batch. Where that fails it is tried again with each batch, and
// until then the threads that call await() serve the sink.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/session/counters.h"
#include "engine/session/outgoing_batch.h"
#include "engine/session/sink.h"

namespace sonde::session {

// Used by the draining thread, except where a method says otherwise.
class Delivery {
 public:
  // What may wait for the sink. Beyond, the newest batch is lost to it and counted, under
  // "delivery to <name of the sink>".
  static constexpr std::size_t kMaxBytes = 64u << 20;
  static constexpr std::size_t kMaxBatches = 1024;

  explicit Delivery(std::shared_ptr<Sink> sink);
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;
  ~Delivery() { close(); }

  // `bytes`: OutgoingBatch::bytes(), asked before another thread has the batch.
  void accept(const std::shared_ptr<const OutgoingBatch>& batch, std::size_t bytes) noexcept;
  // Asks the sink to flush after everything accepted so far, within `patience_ns`. Does not wait
  // for that. `last`: the sink flushes even if it never got a batch.
  void flush(std::uint64_t patience_ns, bool last) noexcept;
  // Any thread. Waits until the sink has everything that was accepted, and has flushed. If an
  // earlier wait timed out and the sink has finished nothing since, returns at once.
  void await(std::uint64_t deadline_ns) noexcept;
  // Any thread.
  void count(Counters& all) const;
  // The session is over. Batches that the sink does not have by now are lost to it and counted, and
  // so is what it holds back if it has not been told of the end.
  void close() noexcept;

 private:
  // Shared with the thread, which may outlive the session where the sink does not return.
  struct Queue;

  void start() noexcept;

  std::shared_ptr<Queue> queue_;
  bool wanted_ = false;  // the sink has something to do, or had
  std::atomic<bool> has_thread_{false};
};

}  // namespace sonde::session
