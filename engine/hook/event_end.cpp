// A stretch of the loop ends, the session ends, or the hooks are taken away.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "engine/base/attr_names.h"
#include "engine/base/json_members.h"
#include "engine/hook/judge.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/pass.h"
#include "engine/hook/training.h"
#include "engine/record/lane.h"
#include "engine/record/names.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

using record::ScopeHandle;

// What the leaves before a fetch, or before the end of everything, turn out to be.
void Training::conclude(Here here, const Moment& now, const Pass* next) {
  if (next == nullptr && seen_.step.is_reopened_and_empty(here.thread)) cancel_step(seen_);
  if (seen_.leaves.empty() || seen_.leaves.only_loads()) return;
  carry_out(seen_, here, judge_stretch(seen_.evidence(here), next), now);
  if (seen_.look.is_open()) close_look(seen_, here, now);
}

// The session ends. No event says that a loop without a loader, or one whose iterator lives, is
// over: it ended with the last thing that was recorded in it. What is in the middle of something,
// and what an exception has passed through, stays open until the session itself ends.
void Training::end_loop(Here here) noexcept {
  const Moment end = last_known(here);
  conclude(here, end);
  settle(seen_);
  const auto stands = [](const ScopeHandle& scope) {
    if (!record::is_innermost(scope)) return false;
    const std::string_view attrs = record::name_text(record::view_of(scope).static_attrs());
    return !base::find_member(attrs, base::kExceptionAttr);
  };
  if (seen_.look.is_open() && stands(seen_.look.scope)) close_look(seen_, here, end);
  const bool open = seen_.step.is_open();
  if (!is_loop_over({.fetched = seen_.step.pass(),
                     .claimed = seen_.claims.trainers > 0 || seen_.claims.steps > 0,
                     .step_open = open,
                     .step_done = seen_.step.done(),
                     .step_stands = open && stands(seen_.step.handle())}))
    return;
  if (open) close_step(seen_, here.thread, end);
  for (Pass* pass = seen_.passes.innermost(); pass != nullptr && stands(pass->scope);
       pass = seen_.passes.innermost())
    finish(seen_, here.thread, *pass, end);
  if (seen_.counted.is_open() && stands(seen_.counted.scope)) end_counted(seen_, here.thread, end);
}

// When something was last recorded here, as far as that can be told.
Moment Training::last_known(Here here) const noexcept {
  const std::uint64_t newest =
      here.thread.lane == seen_.stack ? record::newest_ns(*seen_.stack) : 0;
  if (newest == 0) return {};
  const record::ScopeView top = record::top_of(*seen_.stack);
  const std::uint64_t begun = top ? top.start_ns() : 0;
  return Moment::at(std::max({newest, seen_.running.ended_ns, seen_.step.done_ns(), begun}));
}

// Closes what the hooks have opened, in reverse order. What the program has opened inside stays.
void Training::finish_everything(Here here) noexcept {
  if (record::tenancy_of(here.stack) != seen_.tenancy) return settle(seen_);
  const Moment now;
  begin_event(here);
  while (seen_.optimizers.any()) seen_.optimizers.end(here.thread, now);
  conclude(here, now);
  settle(seen_);
  close_look(seen_, here, now);
  while (Pass* pass = seen_.passes.innermost()) finish(seen_, here.thread, *pass, now);
  if (seen_.step.is_open()) close_step(seen_, here.thread, now);
  end_counted(seen_, here.thread, now);
}

}  // namespace sonde::hook
