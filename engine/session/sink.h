// Where batches go. Each sink is a file of its own; sinks.h has the list of a session and says in
// which order they are served.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/session/outgoing_batch.h"

namespace sonde::session {

// All methods are called by the thread that drains: the drain thread, or the thread that ends the
// session. They are never called at the same time, and never with a lock held that a recording
// thread could want; so a sink may take the GIL. What a sink throws is counted and said once, and
// the other sinks go on.
class Sink {
 public:
  // What a batch has to hold for this sink besides spans and marks.
  struct Needs {
    bool snapshots = false;  // records of captures, which have to be encoded for it
    bool context = false;    // OutgoingBatch::earlier_marks and open_scopes
  };

  virtual ~Sink() = default;

  // For messages and health(): "event stream".
  virtual std::string_view name() const noexcept = 0;
  virtual Needs needs() const noexcept { return {}; }

  // Takes what it needs of the batch and returns. What takes long (a network) is done on a thread
  // of the sink's own: while this runs, the batch is safe, but the next one is not drained.
  virtual void accept(const OutgoingBatch& batch) = 0;

  // After each tick: everything that was recorded before it has been accepted. Waits for what the
  // sink has under way, until `deadline_ns` by base::monotonic_ns() at most; 0: do not wait.
  // `last`: the session ends, nothing follows. True when nothing is left.
  virtual bool flush(std::uint64_t deadline_ns, bool last) = 0;
};

// Any thread. A sink, or a function of the host that it called, has failed: counts it and says it
// once for each name.
void say_sink_failed(std::string_view name, std::string_view what) noexcept;

}  // namespace sonde::session
