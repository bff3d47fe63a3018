// The ends of fetches, forwards and backwards: spans that are certain of their place, and leaves.
#include <cstdint>

#include "engine/base/placement.h"
#include "engine/hook/leaves.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/seen.h"
#include "engine/hook/spans.h"
#include "engine/record/provisional.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

using record::ScopeHandle;

void settle_leaves(Seen& seen) noexcept {
  seen.leaves.settle([&](std::uint64_t parent) { seen.parents.note(parent); });
}

namespace {

// The span becomes a leaf: where it belongs is not certain yet.
SONDE_HOT SONDE_APART void keep_leaf(Seen& seen, Here here, ScopeHandle& scope, Leaf::Kind kind,
                                     const Moment& now) {
  const bool forward = kind == Leaf::Kind::kForward;
  const record::ScopeView slot = record::view_of(scope);
  Leaf leaf{.sequence = scope.sequence,
            .start_ns = slot.start_ns(),
            .module = forward ? seen.running.module : nullptr,
            .kind = kind,
            .evaluates = forward && seen.running.reading.evaluates,
            .sure = forward && seen.running.reading.sure,
            .foreign = forward && seen.running.reading.foreign,
            .watched = forward && seen.running.watch};
  leaf.start_event = slot.start_event();
  record::end_on_gpu(scope, [&] { return now.event(); });
  leaf.record = record::close_provisionally(here.thread, scope, now.ns);
  scope = {};
  if (!leaf.record) {
    seen.others.touched = true;
    return;
  }
  if (seen.leaves.empty()) seen.others.touched = false;
  if (seen.leaves.full()) {  // the oldest stays where it is
    seen.parents.note(seen.leaves.parent());
    if (seen.look.is_open()) ++seen.look.spans;
  }
  seen.leaves.add(leaf);
}

}  // namespace

void end_leaf(Seen& seen, Here here, ScopeHandle& scope, Leaf::Kind kind, const Moment& now) {
  seen.running.ended_ns = now.ns;
  if (seen.running.pend && record::is_open(scope)) return keep_leaf(seen, here, scope, kind, now);
  if (scope) seen.parents.note(record::view_of(scope).parent());
  close_span(here.thread, scope, now);
}

// Only the innermost scope can be taken back, and only if no span is certain to be in it.
bool cancel(Seen& seen, ScopeHandle& scope) {
  return !scope || (!seen.parents.has(scope.sequence) && cancel_span(scope));
}

}  // namespace sonde::hook
