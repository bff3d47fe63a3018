// The part of a training that a trainer tells: that it runs, how much of it, what its closures are.
#include "engine/hook/names.h"
#include "engine/hook/training.h"

namespace sonde::hook {

void Training::begin_trainer(Here here) noexcept {
  ++trainers_;
  const Moment now;
  begin_event(here);
  if (done_) conclude(here, now);
  pause_checks(here, now);
  settle();
  end_fallback(here.thread, now);
  end_event(here);
}

void Training::end_trainer() noexcept {
  if (trainers_ > 0) --trainers_;
}

void Training::end_closure(Here here) noexcept {
  if (optimizer_.apart && !record::is_open(optimizer_.scope)) open_optimizer(here, Moment());
}

// What a loop before it has left open ends here, not around the trainer's epochs.
void Training::begin_announced(Here here) noexcept {
  const Moment now;
  begin_event(here);
  close_stale_optimizers(here.thread, now);
  if (done_) conclude(here, now);
  settle();
  close_look(here, now);
  const auto over = [](const Pass* pass) {
    return pass != nullptr && (pass->failed_ || pass->drained_);
  };
  if ((done_ || over(innermost())) && record::is_open(step_) && record::is_innermost(step_))
    close_step(here.thread, now);
  while (over(innermost()) && record::is_innermost(innermost()->scope_))
    finish(here.thread, *innermost(), now);
  if (record::is_open(fallback_epoch_) && record::is_innermost(fallback_epoch_))
    end_fallback(here.thread, now);
  end_event(here);
  ++announced_;
}

void Training::end_announced() noexcept {
  if (announced_ > 0) --announced_;
}

void Training::begin_step(Here here, std::int64_t index) noexcept {
  const Moment now;
  begin_event(here);
  if (Pass* check = checking()) turn_into_training(here, *check, now);
  close_look(here, now);
  settle();
  prove();  // also when a frozen model is going to run first
  if (!taken(here.stack, Level::kStep)) number_step(here, index, now);
  end_event(here);
}

void Training::number_step(Here here, std::int64_t index, const Moment& now) {
  if (step_open() && !done_) {
    record::relabel_scope(step_, names().step, index);
    step_index_ = index;
    return;
  }
  if (step_open()) {
    if (step_.stack != &here.stack || !record::is_innermost(step_)) return;
    close_step(here.thread, now);
  }
  open_step(here, index, now);
}

void Training::end_step(Here here) noexcept {
  settle();
  if (!step_open() || step_.stack != &here.stack) return;
  const Moment now;
  close_stale_optimizers(here.thread, now);
  done_ = true;
  if (record::is_innermost(step_)) close_step(here.thread, now);
}

}  // namespace sonde::hook
