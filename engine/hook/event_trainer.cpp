// What a trainer reports: where it begins and ends, and its steps and closures.
#include <cstdint>

#include "engine/hook/event.h"
#include "engine/hook/judge.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/seen.h"
#include "engine/hook/step.h"
#include "engine/hook/training.h"
#include "engine/record/scope.h"

namespace sonde::hook {

void Training::begin_trainer(Here here) noexcept {
  ++seen_.claims.trainers;
  const Moment now;
  begin_event(seen_, here);
  make_room_for_trainer(seen_, here, now);
  end_event(seen_, here);
}

void Training::end_trainer() noexcept {
  if (seen_.claims.trainers > 0) --seen_.claims.trainers;
}

void Training::end_closure(Here here) noexcept { seen_.optimizers.resume(here); }

void Training::begin_announced(Here here) noexcept {
  const Moment now;
  begin_event(seen_, here);
  make_room_for_announced(seen_, here, now);
  end_event(seen_, here);
  ++seen_.claims.announced;
}

void Training::end_announced() noexcept {
  if (seen_.claims.announced > 0) --seen_.claims.announced;
}

void Training::begin_step(Here here, std::int64_t index) noexcept {
  const Moment now;
  begin_event(seen_, here);
  if (seen_.passes.checking() != nullptr)
    carry_out(seen_, here, judge_trained_check(seen_.evidence(here)), now);
  close_look(seen_, here, now);
  settle(seen_);
  prove(seen_);  // also when a frozen model is going to run first
  const Step& step = seen_.step;
  const NumberedStep found =
      judge_numbered_step({.step_open = step.is_open(),
                           .done = step.done(),
                           .closable = step.is_on(here.stack) && step.is_open_innermost(),
                           .taken = seen_.levels(here.stack).step});
  carry_out(seen_, here, verdict_on(found, index), now);
  end_event(seen_, here);
}

void Training::end_step(Here here) noexcept {
  settle(seen_);
  if (!seen_.step.is_open() || !seen_.step.is_on(here.stack)) return;
  const Moment now;
  close_stale_optimizers(seen_, here.thread, now);
  seen_.step.note_done();
  if (record::is_innermost(seen_.step.handle())) close_step(seen_, here.thread, now);
}

}  // namespace sonde::hook
