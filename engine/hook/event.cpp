#include "engine/hook/event.h"

#include <cstdint>

#include "engine/base/placement.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/seen.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

using record::ScopeView;

namespace {

// The program has opened or closed scopes, or recorded something, since the last event.
SONDE_COLD void look_around(Seen& seen, Here here) noexcept {
  if (seen.others.recorded(here.thread)) {
    seen.others.touched = true;
    if (seen.others.opened(here.thread)) seen.leaves.touch();
  }
  if ((seen.counted.scope && !seen.counted.is_open()) ||
      (!seen.passes.owners.empty() && !record::is_open(seen.passes.innermost()->scope)))
    drop_closed(seen);
  if (seen.leaves.empty()) return;
  // Nothing can be moved out of a scope that is over.
  const std::uint64_t parent = seen.leaves.parent();
  if (parent != record::current_parent(here.stack) &&
      !record::innermost_where(here.stack,
                               [&](ScopeView scope) { return scope.sequence() == parent; }))
    settle(seen);
}

}  // namespace

void begin_event(Seen& seen, Here here) noexcept {
  seen.plain = false;
  record::pop_closed(here.stack);
  if (seen.others.recorded(here.thread) || record::depth_of(here.stack) != seen.others.depth)
      [[unlikely]]
    look_around(seen, here);
}

}  // namespace sonde::hook
