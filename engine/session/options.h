// What a session needs to know. Resolved once, before it starts; the unit is in the name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/face.h"
#include "engine/session/line_outlet.h"
#include "engine/snapshot/blob.h"

namespace sonde::session {

class Sink;

struct Options {
  base::Face face;         // the API that the session was started from
  std::string output_dir;  // absolute; empty: nothing touches the disk
  std::uint64_t flush_interval_ns = 1'000'000'000;
  std::uint64_t spool_max_bytes = 1'000'000'000;
  std::uint32_t trace_max_spans = 100'000;
  std::int32_t rank = 0;
  std::int32_t local_rank = 0;
  std::int32_t world_size = 1;
  snapshot::BlobOptions blobs;  // raw tensors, below the output directory
  std::string attrs;            // of the session span, JSON members
  bool handle_signals = true;  // finish cleanly on SIGTERM and SIGHUP that the host does not handle
  // For a child process: the session has no thread, file or signal handler until something is
  // recorded. If nothing is ever recorded, it leaves nothing behind.
  bool on_demand = false;

  // The draining thread calls none of these three. Each is called on a thread of its own (outlets
  // with one target share a thread; delivery.h), and never with a lock held that a recording thread
  // may want.
  std::vector<LineOutlet> lines;                   // closed spans as text
  std::function<void(std::string_view)> on_batch;  // each batch as JSON
  // Further sinks; none of them is durable (see sinks.h).
  std::vector<std::shared_ptr<Sink>> more_sinks;
  // A signal asks the process to end, and nothing is closed yet. Called on the drain thread; has to
  // return soon, and by `deadline_ns` (base::monotonic_ns) at the latest.
  std::function<void(std::uint64_t deadline_ns)> on_termination;
};

}  // namespace sonde::session
