// Hands batches to the sinks that are not durable, on one thread, so that a sink that blocks (a
// full pipe, a slow handler) holds up neither the spool nor the journal. The thread is started with
// the first batch. If no thread can be started, the draining thread calls the sinks itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/session/outgoing_batch.h"
#include "engine/session/sink.h"

namespace sonde::session {

// Used by the draining thread, except where a method says otherwise.
class Delivery {
 public:
  // What may wait for the sinks. Beyond, the newest batch is lost to them and counted.
  static constexpr std::size_t kMaxBytes = 64u << 20;
  static constexpr std::size_t kMaxBatches = 1024;

  explicit Delivery(std::vector<std::shared_ptr<Sink>> sinks);
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;
  ~Delivery() { close(); }

  // Returns the batch where it is not needed any more.
  std::unique_ptr<OutgoingBatch> accept(std::unique_ptr<OutgoingBatch> batch) noexcept;
  // The sinks flush once they have everything that was accepted before, and then have that long.
  // Does not wait for that. `last`: also sinks that never got a batch.
  void flush(std::uint64_t patience_ns, bool last) noexcept;
  // Any thread. Waits until the sinks have everything that was accepted, and have flushed.
  void await(std::uint64_t deadline_ns) noexcept;
  // The session is over. Batches that the sinks do not have by now are lost to them and counted.
  void close() noexcept;

 private:
  // Shared with the thread, which may outlive the session where a sink does not return.
  struct Queue;
  enum class By { kNone, kThread, kCaller };  // who calls the sinks

  void start() noexcept;
  static void say_full(const Queue& queue);
  static void say_late(const Queue& queue, std::size_t batches);

  std::shared_ptr<Queue> queue_;  // null: there are no sinks
  By by_ = By::kNone;
};

}  // namespace sonde::session
