// How many records a batch, or several of them, hold.
#pragma once

#include <cstdint>

#include "engine/model/trace.h"

namespace sonde::session {

struct Contents {
  std::uint64_t spans = 0;
  std::uint64_t marks = 0;
  std::uint64_t snapshots = 0;

  static Contents of(const model::Batch& records) noexcept {
    return {records.spans.size(), records.marks.size(), records.snapshots.size()};
  }
  void add(const Contents& more) noexcept {
    spans += more.spans;
    marks += more.marks;
    snapshots += more.snapshots;
  }
};

}  // namespace sonde::session
