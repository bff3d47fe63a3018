// The interface of the places that batches go to. sinks.h has the sinks of a session and the order
// in which they are served.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string_view>

#include "engine/session/counters.h"
#include "engine/session/outgoing_batch.h"

namespace sonde::session {

// The methods of one sink, count() aside, are never called at the same time, and never with a lock
// held that a recording thread could want; so a sink may take the GIL. The spool and the memory are
// served by the draining thread (drain_loop.h), each of the others by a thread of its own
// (delivery.h). What a sink throws is counted and logged once, and the other sinks go on.
class Sink {
 public:
  // What a batch has to hold for this sink besides spans and marks.
  struct Needs {
    bool snapshots = false;  // records of captures, which have to be encoded for it
    bool context = false;    // OutgoingBatch::earlier_marks and open_scopes
  };

  virtual ~Sink() = default;

  // For messages and counters: "event stream".
  virtual std::string_view name() const noexcept = 0;
  virtual Needs needs() const noexcept { return {}; }

  // Takes what it needs of the batch and returns. Further batches wait meanwhile, up to the bound
  // in delivery.h. A sink that needs the batch for longer (to try again, say) keeps the pointer,
  // and bounds how many it keeps.
  virtual void accept(const std::shared_ptr<const OutgoingBatch>& batch) = 0;

  // Called after each tick in which the sink got a batch, after later ones until it returns true,
  // and in any case at the end of the session. By then everything recorded before the tick has been
  // accepted. Waits for what the sink has under way, until `deadline_ns` at most
  // (base/deadline.h). `last`: the session ends, nothing follows. True when nothing is left.
  virtual bool flush(std::uint64_t deadline_ns, bool last) = 0;

  // Any thread, also while another method runs. Adds what the sink counts. Does not wait.
  virtual void count(Counters& /*all*/) const {}
};

// Any thread. A sink, or a function of the host that it called, has failed: counts it and says it
// once for each name.
void say_sink_failed(std::string_view name, std::string_view what) noexcept;

// Runs `work`. An exception is reported and does not keep the other sinks from running. False: it
// threw, or returned false.
template <typename Work>
bool guarded(std::string_view name, Work work) noexcept {
  try {
    return work();
  } catch (const std::exception& error) {
    say_sink_failed(name, error.what());
  } catch (...) {
    say_sink_failed(name, "unknown error");
  }
  return false;
}
inline bool hand(Sink& sink, const std::shared_ptr<const OutgoingBatch>& batch) noexcept {
  return guarded(sink.name(), [&] { return sink.accept(batch), true; });
}

}  // namespace sonde::session
