// A stretch of the loop ends, a trainer begins, the session ends, or the hooks are taken away.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "engine/base/attr_names.h"
#include "engine/base/json_members.h"
#include "engine/hook/event.h"
#include "engine/hook/judge.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/pass.h"
#include "engine/hook/seen.h"
#include "engine/record/lane.h"
#include "engine/record/names.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

using record::ScopeHandle;
using record::ThreadState;

// What the leaves before a fetch, or before the end of everything, turn out to be.
void conclude(Seen& seen, Here here, const Moment& now, const Pass* next) {
  if (next == nullptr && seen.step.is_reopened_and_empty(here.thread)) cancel_step(seen);
  if (seen.leaves.empty() || seen.leaves.only_loads()) return;
  carry_out(seen, here, judge_stretch(seen.evidence(here), next), now);
  if (seen.look.is_open()) close_look(seen, here, now);
}

void close_stale_optimizers(Seen& seen, ThreadState& thread, const Moment& now) {
  if (!seen.optimizers.any()) return;
  while (seen.optimizers.any()) seen.optimizers.end(thread, now);
  seen.passes.note_failure();
}

void make_room_for_trainer(Seen& seen, Here here, const Moment& now) {
  if (seen.step.done()) conclude(seen, here, now);
  pause_checks(seen, here, now);
  settle(seen);
  end_counted(seen, here.thread, now);
}

void make_room_for_announced(Seen& seen, Here here, const Moment& now) {
  close_stale_optimizers(seen, here.thread, now);
  if (seen.step.done()) conclude(seen, here, now);
  settle(seen);
  close_look(seen, here, now);
  const auto over = [&] { return ends_for_trainer(seen.passes.innermost()); };
  if ((seen.step.done() || over()) && seen.step.is_open_innermost())
    close_step(seen, here.thread, now);
  while (over() && record::is_innermost(seen.passes.innermost()->scope))
    finish(seen, here.thread, *seen.passes.innermost(), now);
  if (seen.counted.is_open() && record::is_innermost(seen.counted.scope))
    end_counted(seen, here.thread, now);
}

namespace {

// When something was last recorded here, as far as that can be told.
Moment last_known(const Seen& seen, Here here) noexcept {
  const std::uint64_t newest = here.thread.lane == seen.stack ? record::newest_ns(*seen.stack) : 0;
  if (newest == 0) return {};
  const record::ScopeView top = record::top_of(*seen.stack);
  const std::uint64_t begun = top ? top.start_ns() : 0;
  return Moment::at(std::max({newest, seen.running.ended_ns, seen.step.done_ns(), begun}));
}

// The session ends. No event says that a loop without a loader, or one whose iterator lives, is
// over: it ended with the last thing that was recorded in it. What is in the middle of something,
// and what an exception has passed through, stays open until the session itself ends.
void conclude_loop(Seen& seen, Here here) noexcept {
  const Moment end = last_known(seen, here);
  conclude(seen, here, end);
  settle(seen);
  const auto stands = [](const ScopeHandle& scope) {
    if (!record::is_innermost(scope)) return false;
    const std::string_view attrs = record::name_text(record::view_of(scope).static_attrs());
    return !base::find_member(attrs, base::kExceptionAttr);
  };
  if (seen.look.is_open() && stands(seen.look.scope)) close_look(seen, here, end);
  const bool open = seen.step.is_open();
  if (!is_loop_over({.fetched = seen.step.pass(),
                     .claimed = seen.claims.trainers > 0 || seen.claims.steps > 0,
                     .step_open = open,
                     .step_done = seen.step.done(),
                     .step_stands = open && stands(seen.step.handle())}))
    return;
  if (open) close_step(seen, here.thread, end);
  for (Pass* pass = seen.passes.innermost(); pass != nullptr && stands(pass->scope);
       pass = seen.passes.innermost())
    finish(seen, here.thread, *pass, end);
  if (seen.counted.is_open() && stands(seen.counted.scope)) end_counted(seen, here.thread, end);
}

}  // namespace

void end_loop(Seen& seen, Here here) noexcept {
  if (seen.of_this_session() && seen.of_this_tenancy() && !seen.claims.everything())
    conclude_loop(seen, here);
  settle(seen);
}

// Closes what the hooks have opened, in reverse order. What the program has opened inside stays.
void finish_everything(Seen& seen, Here here) noexcept {
  if (!seen.of_this_tenancy()) return settle(seen);
  const Moment now;
  begin_event(seen, here);
  while (seen.optimizers.any()) seen.optimizers.end(here.thread, now);
  conclude(seen, here, now);
  settle(seen);
  close_look(seen, here, now);
  while (Pass* pass = seen.passes.innermost()) finish(seen, here.thread, *pass, now);
  if (seen.step.is_open()) close_step(seen, here.thread, now);
  end_counted(seen, here.thread, now);
}

}  // namespace sonde::hook
