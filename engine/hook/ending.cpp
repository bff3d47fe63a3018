// A stretch of the loop ends, the session ends, or the hooks are taken away.
#include <algorithm>

#include "engine/hook/training.h"
#include "engine/record/stack.h"

namespace sonde::hook {

using record::ScopeHandle;
using record::ThreadState;

// What the leaves before a fetch, or before the end of everything, turn out to be.
void Training::conclude(Here here, const Moment& now, const Pass* next) {
  if (next == nullptr && step_.is_empty(here.thread)) cancel_step();
  if (leaves_.empty() || leaves_.only_loads()) return;
  carry_out(here, judge_stretch(evidence(here), next), now);
  if (look_.is_open()) close_look(here, now);
}

// The session ends. Of a loop without a loader, or of one whose iterator lives, no event has said
// that it is over: it ended with the last thing that is known of it. What was in the middle of
// something, or what an exception has passed through, is left to the end of the session.
void Training::end_loop(Here here) noexcept {
  const Moment end = last_known(here);
  conclude(here, end);
  settle();
  const auto stands = [](const ScopeHandle& scope) {
    if (!record::is_innermost(scope)) return false;
    const std::uint32_t attrs = record::view_of(scope).static_attrs();
    return record::name_text(attrs).find("\"exception\":") == std::string_view::npos;
  };
  if (look_.is_open() && stands(look_.scope)) close_look(here, end);
  const bool unused = step_.pass != nullptr && step_.pass->drained && !step_.pass->ever_used;
  if (claims_.trainers > 0 || claims_.steps > 0) return;
  if (step_.is_open() && !((step_.done || unused) && stands(step_.scope))) return;
  if (step_.is_open()) close_step(here.thread, end);
  for (Pass* pass = passes_.innermost(); pass != nullptr && stands(pass->scope);
       pass = passes_.innermost())
    finish(here.thread, *pass, end);
  if (counted_.is_open() && stands(counted_.scope)) end_counted(here.thread, end);
}

// When something was last recorded here, as far as that can be told.
Moment Training::last_known(Here here) const noexcept {
  const std::uint64_t newest = here.thread.lane == stack_ ? record::newest_ns(*stack_) : 0;
  if (newest == 0) return {};
  const record::ScopeView top = record::top_of(*stack_);
  const std::uint64_t begun = top ? top.start_ns() : 0;
  return Moment::at(std::max({newest, running_.ended_ns, step_.done_ns, begun}));
}

// In reverse order of their opening; what the program has opened inside stays.
void Training::finish_everything(Here here) noexcept {
  if (record::tenancy_of(here.stack) != tenancy_) return settle();
  const Moment now;
  begin_event(here);
  while (optimizers_.any()) optimizers_.end(here.thread, now);
  conclude(here, now);
  settle();
  close_look(here, now);
  while (Pass* pass = passes_.innermost()) finish(here.thread, *pass, now);
  if (step_.is_open()) close_step(here.thread, now);
  end_counted(here.thread, now);
}

}  // namespace sonde::hook
