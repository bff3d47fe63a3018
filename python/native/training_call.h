// From a call of the interpreter to the training loop it belongs to.
#pragma once

#include "engine/hook/training.h"
#include "python/native/boundaries.h"
#include "python/native/stack.h"

namespace sonde::native {

// Calls `work(training, here)` if this thread records.
template <typename Work>
void with_training(Work work) noexcept {
  record::ThreadState* thread = record::this_thread();
  if (thread == nullptr) return;
  record::Lane* stack = current_stack(*thread);
  if (stack == nullptr) return record::count_laneless(false);
  const hook::Here here{*thread, *stack};
  work(hook::Training::of(here), here);
  stack_changed(*thread, *stack);
  Boundaries::tell_epoch_ends();
}

}  // namespace sonde::native
