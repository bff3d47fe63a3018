// Before every event that is not plain: what has the program done since the last event?
#include <cstdint>

#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/training.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

using record::ScopeView;

void Training::begin_event(Here here) noexcept {
  seen_.plain = false;
  record::pop_closed(here.stack);
  if (seen_.others.recorded(here.thread) || record::depth_of(here.stack) != seen_.others.depth)
      [[unlikely]]
    look_around(here);
}

// The program has opened or closed scopes, or recorded something, since the last event.
void Training::look_around(Here here) noexcept {
  if (seen_.others.recorded(here.thread)) {
    seen_.others.touched = true;
    if (seen_.others.opened(here.thread)) seen_.leaves.touch();
  }
  if ((seen_.counted.scope && !seen_.counted.is_open()) ||
      (!seen_.passes.owners.empty() && !record::is_open(seen_.passes.innermost()->scope)))
    drop_closed(seen_);
  if (seen_.leaves.empty()) return;
  // Nothing can be moved out of a scope that is over.
  const std::uint64_t parent = seen_.leaves.parent();
  if (parent != record::current_parent(here.stack) &&
      !record::innermost_where(here.stack,
                               [&](ScopeView scope) { return scope.sequence() == parent; }))
    settle(seen_);
}

}  // namespace sonde::hook
