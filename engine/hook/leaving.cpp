// The ends of fetches, forwards and backwards: spans that are certain of their place, and leaves.
#include "engine/hook/transitions.h"
#include "engine/record/stack.h"

namespace sonde::hook {

using record::ScopeHandle;

void Transitions::settle_leaves() noexcept {
  leaves_.settle([&](std::uint64_t parent) { parents_.note(parent); });
}

void Transitions::end_leaf(Here here, ScopeHandle& scope, Leaf::Kind kind, const Moment& now) {
  running_.ended_ns = now.ns;
  if (running_.pend && record::is_open(scope)) return keep_leaf(here, scope, kind, now);
  if (scope) parents_.note(record::view_of(scope).parent());
  close_span(here.thread, scope, now);
}

// It is not certain yet where it belongs.
void Transitions::keep_leaf(Here here, ScopeHandle& scope, Leaf::Kind kind, const Moment& now) {
  const bool forward = kind == Leaf::Kind::kForward;
  const record::ScopeView slot = record::view_of(scope);
  Leaf leaf{.sequence = scope.sequence,
            .start_ns = slot.start_ns(),
            .module = forward ? running_.module : nullptr,
            .kind = kind,
            .evaluates = forward && running_.reading.evaluates,
            .sure = forward && running_.reading.sure,
            .foreign = forward && running_.reading.foreign,
            .watched = forward && running_.watch};
  leaf.start_event = slot.start_event();
  record::end_on_gpu(scope, [&] { return now.event(); });
  leaf.record = record::close_provisionally(here.thread, scope, now.ns);
  scope = {};
  if (!leaf.record) {
    others_.touched = true;
    return;
  }
  if (leaves_.empty()) others_.touched = false;
  if (leaves_.full()) {  // the oldest stays where it is
    parents_.note(leaves_.parent());
    if (look_.is_open()) ++look_.spans;
  }
  leaves_.add(leaf);
}

// As if it had never been opened. Only for the innermost, and where no span is certain to be in it.
bool Transitions::cancel(ScopeHandle& scope) {
  return !scope || (!parents_.has(scope.sequence) && cancel_span(scope));
}

}  // namespace sonde::hook
