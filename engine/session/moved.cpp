#include "engine/session/moved.h"

#include <cstdint>
#include <vector>

#include "engine/journal/commit.h"
#include "engine/record/journal.h"
#include "engine/record/ring.h"

namespace sonde::session {

using record::Journal;
using record::Lane;

void Moved::append(const Moved& later) {
  tails.insert(tails.end(), later.tails.begin(), later.tails.end());
  blocks.insert(blocks.end(), later.blocks.begin(), later.blocks.end());
}

void announce_tails(const Moved& moved) {
  Journal& journal = Journal::instance();
  for (const auto& [lane, tail] : moved.tails) record::announce_tail(journal.lane(lane), tail);
}

void commit(const Moved& moved) {
  Journal& journal = Journal::instance();
  announce_tails(moved);
  std::vector<Lane*> lanes;
  lanes.reserve(moved.tails.size());
  for (const auto& [lane, tail] : moved.tails) lanes.push_back(&journal.lane(lane));
  journal::OwnCommit(journal.memory()).commit(lanes);
  for (const std::uint32_t block : moved.blocks) journal.free_block(block);
}

}  // namespace sonde::session
