// The part of a training that a trainer tells: that it runs, how much of it, what its closures are.
#include "engine/hook/names.h"
#include "engine/hook/training.h"

namespace sonde::hook {

void Training::begin_trainer(Here here) noexcept {
  ++claims_.trainers;
  const Moment now;
  begin_event(here);
  if (step_.done) conclude(here, now);
  pause_checks(here, now);
  settle();
  end_counted(here.thread, now);
  end_event(here);
}

void Training::end_trainer() noexcept {
  if (claims_.trainers > 0) --claims_.trainers;
}

void Training::end_closure(Here here) noexcept { optimizers_.resume(here); }

// What a loop before it has left open ends here, not around the trainer's epochs.
void Training::begin_announced(Here here) noexcept {
  const Moment now;
  begin_event(here);
  close_stale_optimizers(here.thread, now);
  if (step_.done) conclude(here, now);
  settle();
  close_look(here, now);
  const auto over = [](const Pass* pass) {
    return pass != nullptr && (pass->failed || pass->drained);
  };
  if ((step_.done || over(passes_.innermost())) && step_.is_open_innermost())
    close_step(here.thread, now);
  while (over(passes_.innermost()) && record::is_innermost(passes_.innermost()->scope))
    finish(here.thread, *passes_.innermost(), now);
  if (counted_.is_open() && record::is_innermost(counted_.scope)) end_counted(here.thread, now);
  end_event(here);
  ++claims_.announced;
}

void Training::end_announced() noexcept {
  if (claims_.announced > 0) --claims_.announced;
}

void Training::begin_step(Here here, std::int64_t index) noexcept {
  const Moment now;
  begin_event(here);
  if (Pass* check = passes_.checking()) turn_into_training(here, *check, now);
  close_look(here, now);
  settle();
  prove();  // also when a frozen model is going to run first
  if (!levels(here.stack).step) number_step(here, index, now);
  end_event(here);
}

void Training::number_step(Here here, std::int64_t index, const Moment& now) {
  if (step_.goes_on()) {
    record::relabel_scope(step_.scope, names().step, index);
    step_.index = index;
    return;
  }
  if (step_.is_open()) {
    if (!step_.is_on(here.stack) || !record::is_innermost(step_.scope)) return;
    close_step(here.thread, now);
  }
  open_step(here, index, now);
}

void Training::end_step(Here here) noexcept {
  settle();
  if (!step_.is_open() || !step_.is_on(here.stack)) return;
  const Moment now;
  close_stale_optimizers(here.thread, now);
  step_.done = true;
  if (record::is_innermost(step_.scope)) close_step(here.thread, now);
}

}  // namespace sonde::hook
