// One batch on its way through the sinks, with what some of them need besides its records.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json_writer.h"
#include "engine/model/trace.h"
#include "engine/session/moved.h"

namespace sonde::session {

// Filled by the draining thread (drain_loop.h). A sink sees it as const. Sinks on several threads
// may have the same batch.
class OutgoingBatch {
 public:
  model::Batch records;
  // How far it reaches into the rings. The durable sink commits that once the batch is safe.
  Moved moved;

  // Filled only where a sink needs them (Sink::Needs::context).
  model::Batch earlier_marks;  // marks of these spans that came in earlier batches
  model::Batch open_scopes;    // scopes that were open when the batch was taken
  // Messages for people that came up with this batch. The log has them already.
  std::vector<std::string> announcements;

  // Any thread. The batch as spool v1. The first sink that asks has it encoded; where none asks, it
  // never is.
  std::string_view json() const;

  // How much memory it takes up, about. For the draining thread, before another thread has it.
  std::size_t bytes() const noexcept;

  // Empty again, before the next one is filled in.
  void clear() noexcept;
  // Gives the buffers back to the system if the last batch was a large one.
  void shrink() noexcept;

 private:
  mutable std::mutex encoding_;  // guards the rest
  mutable base::JsonWriter json_;
  mutable bool encoded_ = false;
};

}  // namespace sonde::session
