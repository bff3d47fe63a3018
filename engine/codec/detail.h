// How much of a batch a reader wants.
#pragma once

namespace sonde::codec {

enum class Detail {
  kAll,
  // Only ids, names, times, pids and ranks of spans; of the attributes those of sessions, epochs
  // and steps, and those that say how to read a span. A summary of gigabytes needs no more.
  kTimings,
  kTensors,  // only snapshots, with their statistics
};

}  // namespace sonde::codec
