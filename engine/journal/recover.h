// Moves what dead processes left in their journals to where their batches go, each record exactly
// once, also if this process is killed half-way or several processes try at the same time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/journal/destination.h"

namespace sonde::journal {

struct Recovery {
  std::uint64_t journals = 0;  // dead journals that were moved and removed
  std::uint64_t ended = 0;     // those of them whose run came to its end, and could not write
  std::uint64_t spans = 0, marks = 0, open_scopes = 0;
  std::uint64_t batches = 0;          // that were written
  std::uint64_t running = 0;          // journals left alone because their process lives
  std::uint64_t refused = 0;          // of another version, damaged or unwritable: left in place
  std::vector<std::string> problems;  // one line each, ending with what to do
};

// Every dead journal in the folder `live`. An open scope becomes a span that ends at the last sign
// of life, with the attribute sonde.closed_by = "death". `own`: the journal of the caller, which is
// left alone.
Recovery recover(const std::string& live, const std::string& own, Destination& destination);

}  // namespace sonde::journal
