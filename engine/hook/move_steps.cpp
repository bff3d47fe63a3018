// Opening, closing and taking back steps.
#include <cstdint>

#include "engine/hook/judge.h"
#include "engine/hook/level.h"
#include "engine/hook/listeners.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/names.h"
#include "engine/hook/seen.h"
#include "engine/hook/spans.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"

namespace sonde::hook {

using record::ThreadState;

bool cancel_step(Seen& seen) {
  if (!cancel(seen, seen.step.handle())) return false;
  take_step_back(seen);
  return true;
}

void take_step_back(Seen& seen) noexcept {
  seen.step.take_back();
  seen.cycle.take_back();
}

void close_step(Seen& seen, ThreadState& thread, const Moment& now) {
  if (g_listeners.step_end != nullptr && now.event_number() != 0 && seen.step.is_open())
    g_listeners.step_end(now.event_number());
  close_span(thread, seen.step.handle(), now);
}

void close_step_around(Seen& seen, ThreadState& thread, const Moment& now) {
  if (seen.holds_program(seen.step.handle())) {
    close_around(thread, seen.step.handle(), now);
  } else {
    close_step(seen, thread, now);
  }
}

void rotate_step(Seen& seen, Here here, const Moment& now) {
  const Step& step = seen.step;
  const StepOfFetch found =
      judge_step_of_fetch({.step_open = step.is_open(),
                           .done = step.done(),
                           .closable = step.is_on(here.stack) && step.is_open_innermost(),
                           .taken = seen.levels(here.stack).step});
  carry_out(seen, here, verdict_on(found), now);
}

void open_step(Seen& seen, Here here, std::int64_t index, const Moment& now) {
  seen.step.count_in(open_level(here.stack, names().epoch));
  use_left(seen);
  open_next_step(seen, here, index >= 0 ? index : seen.step.next(), now);
  seen.passes.owed = nullptr;
}

void open_next_step(Seen& seen, Here here, std::int64_t index, const Moment& now) {
  seen.step.begin(
      index,
      open_span(here, {.name = names().step, .index = index, .flags = record::kHasIndex}, now));
  seen.cycle.begin();
}

}  // namespace sonde::hook
