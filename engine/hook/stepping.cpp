// Opening, closing and taking back steps.
#include "engine/hook/names.h"
#include "engine/hook/transitions.h"

namespace sonde::hook {

using record::ThreadState;

bool Transitions::cancel_step() {
  if (!cancel(step_.scope)) return false;
  take_step_back();
  return true;
}

void Transitions::take_step_back() noexcept {
  step_.take_back();
  cycle_.take_back();
}

// Ends the step; what the program has opened inside goes on.
void Transitions::close_step_around(ThreadState& thread, const Moment& now) {
  if (holds_program(step_.scope)) {
    close_around(thread, step_.scope, now);
  } else {
    close_step(thread, now);
  }
}

// A batch was fetched (rule 3): it is another step's, if the one before is done.
void Transitions::rotate_step(Here here, const Moment& now) {
  if (step_.is_open()) {
    // Accumulating, or a scope of the program's reaches across: the step goes on.
    if (!step_.done || !step_.is_on(here.stack) || !record::is_innermost(step_.scope)) {
      if (!leaves_.only_loads()) settle();
      return;
    }
    close_step(here.thread, now);
  }
  settle();
  if (levels(here.stack).step) return;  // rule 8
  open_step(here, -1, now);
}

// Index -1: counted.
void Transitions::open_step(Here here, std::int64_t index, const Moment& now) {
  step_.count_in(open_level(here.stack, names().epoch));
  use_left();
  open_next_step(here, index >= 0 ? index : step_.next, now);
}

void Transitions::open_next_step(Here here, std::int64_t index, const Moment& now) {
  step_.begin(
      index,
      open_span(here, {.name = names().step, .index = index, .flags = record::kHasIndex}, now));
  cycle_.begin();
}

}  // namespace sonde::hook
