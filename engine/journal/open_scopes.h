// The scopes that were open when a journal was read.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/arena.h"
#include "engine/journal/ring_reader.h"
#include "engine/model/process.h"

namespace sonde::journal {

struct OpenSlot {
  model::OpenScope scope;
  std::uint64_t sequence = 0;  // of its span, by which its marks are found
};

// Appends the open scopes of a journal: the session first, then lane by lane, outermost first. Text
// is copied into the arena.
void collect_open(const View& view, const RingReader& reader, base::Arena& arena,
                  std::vector<OpenSlot>& out);

}  // namespace sonde::journal
