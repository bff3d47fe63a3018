// What a trainer reports: where it begins and ends, and its steps and closures.
#include <cstdint>

#include "engine/hook/judge.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/names.h"
#include "engine/hook/training.h"
#include "engine/record/scope.h"

namespace sonde::hook {

void Training::begin_trainer(Here here) noexcept {
  ++seen_.claims.trainers;
  const Moment now;
  begin_event(here);
  if (seen_.step.done()) conclude(here, now);
  pause_checks(seen_, here, now);
  settle(seen_);
  end_counted(seen_, here.thread, now);
  end_event(here);
}

void Training::end_trainer() noexcept {
  if (seen_.claims.trainers > 0) --seen_.claims.trainers;
}

void Training::end_closure(Here here) noexcept { seen_.optimizers.resume(here); }

// What a loop before the trainer has left open ends here, not around the trainer's epochs.
void Training::begin_announced(Here here) noexcept {
  const Moment now;
  begin_event(here);
  close_stale_optimizers(here.thread, now);
  if (seen_.step.done()) conclude(here, now);
  settle(seen_);
  close_look(seen_, here, now);
  const auto over = [&] { return ends_for_trainer(seen_.passes.innermost()); };
  if ((seen_.step.done() || over()) && seen_.step.is_open_innermost())
    close_step(seen_, here.thread, now);
  while (over() && record::is_innermost(seen_.passes.innermost()->scope))
    finish(seen_, here.thread, *seen_.passes.innermost(), now);
  if (seen_.counted.is_open() && record::is_innermost(seen_.counted.scope))
    end_counted(seen_, here.thread, now);
  end_event(here);
  ++seen_.claims.announced;
}

void Training::end_announced() noexcept {
  if (seen_.claims.announced > 0) --seen_.claims.announced;
}

void Training::begin_step(Here here, std::int64_t index) noexcept {
  const Moment now;
  begin_event(here);
  if (seen_.passes.checking() != nullptr)
    carry_out(seen_, here, judge_trained_check(seen_.evidence(here)), now);
  close_look(seen_, here, now);
  settle(seen_);
  prove(seen_);  // also when a frozen model is going to run first
  if (!seen_.levels(here.stack).step) number_step(here, index, now);
  end_event(here);
}

void Training::number_step(Here here, std::int64_t index, const Moment& now) {
  if (seen_.step.goes_on()) {
    record::relabel_scope(seen_.step.handle(), names().step, index);
    seen_.step.renumber(index);
    return;
  }
  if (seen_.step.is_open()) {
    if (!seen_.step.is_on(here.stack) || !record::is_innermost(seen_.step.handle())) return;
    close_step(seen_, here.thread, now);
  }
  open_step(seen_, here, index, now);
}

void Training::end_step(Here here) noexcept {
  settle(seen_);
  if (!seen_.step.is_open() || !seen_.step.is_on(here.stack)) return;
  const Moment now;
  close_stale_optimizers(here.thread, now);
  seen_.step.note_done();
  if (record::is_innermost(seen_.step.handle())) close_step(seen_, here.thread, now);
}

}  // namespace sonde::hook
