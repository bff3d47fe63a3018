// The scopes that were open when a journal was read.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/arena.h"
#include "engine/journal/ring_reader.h"
#include "engine/model/trace.h"

namespace sonde::journal {

struct OpenScopeView {
  model::Span span;  // end_ns is kNone
  std::uint64_t sequence = 0;
  std::uint64_t os_thread_id = 0;
  std::uint32_t lane = 0;
  bool task = false;     // of an asyncio task, not of a thread
  bool session = false;  // the root, which belongs to no lane
};

// Appends the open scopes of a journal: the session first, then lane by lane, outermost first. Text
// is copied into the arena.
void collect_open(const View& view, const RingReader& reader, base::Arena& arena,
                  std::vector<OpenScopeView>& out);

}  // namespace sonde::journal
