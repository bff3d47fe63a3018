// Passes are left: their iterators are gone, or are used on another stack.
#include "engine/hook/event.h"
#include "engine/hook/judge.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/pass.h"
#include "engine/hook/seen.h"
#include "engine/record/lane.h"
#include "engine/record/stack.h"

namespace sonde::hook {

using record::ThreadState;

namespace {

void leave_here(Seen& seen, Here here, Pass& pass) noexcept {
  // Rule 6: one batch with which nothing was done was a peek, not an epoch.
  if (seen.passes.peeked == &pass && drop_peek(seen, here.thread, pass)) return;
  const Moment now;
  if ((&pass == seen.passes.last || pass.role == Pass::Role::kOwner) && seen.of_this_tenancy()) {
    begin_event(seen, here);
    if (!seen.claims.everything()) conclude(seen, here, now);
  }
  const bool waits = pass.relation.waits;
  const bool last = &pass == seen.passes.last && here.thread.lane == seen.stack;
  finish(seen, here.thread, pass, now);
  // The iterator that fetched ahead is gone. If nothing is left of the pass before it, that pass
  // is over, too.
  if (Pass* outer = seen.passes.innermost();
      waits && outer != nullptr && has_nothing_left(*outer, seen.step.done()))
    finish(seen, here.thread, *outer, now);
  if (last) open_owed_step(seen, here, now);
  end_event(seen, here);
}

}  // namespace

void leave(ThreadState& thread, Pass& pass) noexcept {
  Seen* seen = pass.seen;
  if (seen == nullptr) return;
  if (!seen->is_current(thread)) return forget(*seen, pass);
  leave_here(*seen, {thread, *seen->stack}, pass);
}

void leave_all(Seen& seen, Here here) noexcept {
  while (!seen.passes.known.empty()) leave_here(seen, here, *seen.passes.known.back());
  seen.claims.fetches_for_trainer = false;
}

}  // namespace sonde::hook
