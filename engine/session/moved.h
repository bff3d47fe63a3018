// How far a batch reaches into the rings of this process.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/record/ring.h"

namespace sonde::session {

// To be committed once the batch is safe.
struct Moved {
  std::vector<std::pair<std::uint32_t, record::RingTail>> tails;  // by lane number
  std::vector<std::uint32_t> blocks;                              // read to their end

  // Committed as one: `later` reaches further, so its positions come last.
  void append(const Moved& later);
  void clear() noexcept {
    tails.clear();
    blocks.clear();
  }
};

// The records up to `moved` are safe: moves the tails of the rings, gives the blocks back.
void commit(const Moved& moved);
// The first half of commit(), before the batch's file is written (see engine/journal/commit.h).
void announce_tails(const Moved& moved);

}  // namespace sonde::session
