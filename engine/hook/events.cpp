// What is done before every event that is not plain: what has the program done since the last one?
#include "engine/hook/training.h"
#include "engine/record/stack.h"

namespace sonde::hook {

using record::ScopeView;

void Training::begin_event(Here here) noexcept {
  plain_ = false;
  record::pop_closed(here.stack);
  if (others_.recorded(here.thread) || record::depth_of(here.stack) != others_.depth) [[unlikely]]
    look_around(here);
}

// The program has opened or closed scopes, or recorded something, since the last event.
void Training::look_around(Here here) noexcept {
  if (others_.recorded(here.thread)) {
    others_.touched = true;
    if (others_.opened(here.thread)) leaves_.touch();
  }
  if ((counted_.scope && !counted_.is_open()) ||
      (!passes_.owners.empty() && !record::is_open(passes_.innermost()->scope)))
    drop_closed();
  if (leaves_.empty()) return;
  // Nothing can be moved out of a scope that is over.
  const std::uint64_t parent = leaves_.parent();
  if (parent != record::current_parent(here.stack) &&
      !record::innermost_where(here.stack,
                               [&](ScopeView scope) { return scope.sequence() == parent; }))
    settle();
}

}  // namespace sonde::hook
