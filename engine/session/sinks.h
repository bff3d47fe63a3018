// The sinks of one session, in the order in which a batch goes through them: first the spool, which
// commits the journal; then the memory for trace(); then those that are not durable. So a sink that
// fails or is slow holds up neither the spool nor the journal for the batch it is given.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "engine/session/memory_sink.h"
#include "engine/session/options.h"
#include "engine/session/sink.h"
#include "engine/session/spool_sink.h"

namespace sonde::session {

// Used by the draining thread, except where a method says otherwise.
class Sinks {
 public:
  Sinks(Shared& shared, const Options& options);

  // What any of them needs. The answer is the same for the whole session.
  Sink::Needs needs() const noexcept { return needs_; }
  // Without a durable sink the rings are committed before the other sinks see the batch.
  void accept(const OutgoingBatch& batch);
  // The same for a batch that has to leave no run behind: only trace() shows it.
  void remember(const OutgoingBatch& batch);
  // All have the one deadline. True when nothing is left that only the journal has.
  bool flush(std::uint64_t deadline_ns, bool last) noexcept;

  // Null: nothing is durable. Any thread.
  SpoolSink* spool() noexcept { return spool_.get(); }
  const SpoolSink* spool() const noexcept { return spool_.get(); }

 private:
  void skip(const Moved& moved);

  std::unique_ptr<SpoolSink> spool_;
  MemorySink memory_;
  std::vector<std::shared_ptr<Sink>> others_;
  Sink::Needs needs_;
};

}  // namespace sonde::session
