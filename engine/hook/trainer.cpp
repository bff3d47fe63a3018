// The part of a training that a trainer tells: that it runs, and what its closures are.
#include "engine/hook/training.h"

namespace sonde::hook {

void Training::begin_trainer(Here here) noexcept {
  ++trainers_;
  end_fallback(here.thread, Moment());
}

void Training::end_trainer() noexcept {
  if (trainers_ > 0) --trainers_;
  closure_apart_ = false;
}

void Training::end_closure(Here here) noexcept {
  if (closure_apart_ && !record::is_open(optimizer_)) open_optimizer(here, false, Moment());
}

}  // namespace sonde::hook
