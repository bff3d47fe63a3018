// Steps of optimizers: where each of them belongs.
#include <algorithm>

#include "engine/base/placement.h"
#include "engine/hook/level.h"
#include "engine/hook/names.h"
#include "engine/hook/plain.h"
#include "engine/hook/training.h"

namespace sonde::hook {

using record::ThreadState;

void Training::expect_optimizer(Here here, const void* optimizer) noexcept {
  if (announced_ > 0 || optimizing()) return;
  begin_event(here);
  place_optimizer(here, optimizer, false, Moment());
  end_event(here);
}

std::uint64_t Training::begin_optimizer(Here here, const void* optimizer, bool has_closure,
                                        std::uint32_t attrs) noexcept {
  static std::uint64_t serial = 0;
  const Moment now;
  if (!done_ && !has_closure && goes_on(here)) [[likely]] {
    place_plainly();
    prove_plainly();
  } else if (announced_ == 0 && !optimizing()) {
    begin_event(here);
    place_optimizer(here, optimizer, has_closure, now);
  }
  if (optimizing()) [[unlikely]]
    put_optimizer_aside();
  optimizer_ = {.scope = {},
                .serial = ++serial,
                .id = optimizer,
                .attrs = attrs,
                .apart = has_closure && trainers_ > 0};
  if (!optimizer_.apart) open_optimizer(here, now);
  end_event(here);
  return optimizer_.serial;
}

// The next one is a part of it.
void Training::put_optimizer_aside() { outer_optimizers_.push_back(optimizer_); }

void Training::place_optimizer(Here here, const void* optimizer, bool closure, const Moment& now) {
  peeked_ = nullptr;
  if (closure && leaves_.unused()) {
    // What ran before is none of the closure's.
    if (step_open() && done_) carve_check(here);
    conclude(here, now);
    pause_checks(here, now);
  }
  use_batches();
  steps_by_optimizer_ = true;
  if (Pass* check = checking()) {
    turn_into_training(here, *check, now);
  } else if (record::is_open(look_)) {
    leave_look(here, now, leaves_.watched() ? leaves_.size() : 0);
  }
  if (owed_ != nullptr && !step_open()) open_owed_step(here, now);
  Pass* pass = leader();
  if (pass != nullptr && pass->drained_ && done_ && owed_ != pass &&
      (cycle_.repeats(optimizer) || cycle_.full()))
    next_left(here, *pass, now);
  // A closure runs the model itself: behind a whole iteration it is another one.
  const bool repeats = cycle_.repeats(optimizer) || (closure && cycle_.complete());
  if (step_open() && done_ && leader() == nullptr && repeats) {
    if (leaves_.empty()) {
      next_iteration(here, now);
    } else {
      begin_behind_leaves(here, now);
    }
  } else if (!step_open() && !taken(here.stack, Level::kStep)) {
    begin_with_leaves(here, now);
  } else if (step_open() && step_pass_ != nullptr && !step_pass_->trains_) {
    promote(here, *step_pass_);
  }
  settle();
  prove();
}

void Training::open_optimizer(Here here, const Moment& now) {
  optimizer_.scope = open(here, {.name = names().optimizer_step, .attrs = optimizer_.attrs}, now);
}

// It runs its closure once more: that stands beside its spans.
void Training::pause_optimizer(ThreadState& thread, const Moment& now) {
  if (optimizer_.apart) close(thread, optimizer_.scope, now);
}

void Training::drop_optimizer(ThreadState& thread, const Moment& now, std::string_view error) {
  close(thread, optimizer_.scope, now, error);
  optimizer_ = {};
  if (outer_optimizers_.empty()) return;
  optimizer_ = outer_optimizers_.back();
  outer_optimizers_.pop_back();
}

void Training::end_optimizer(Here here, std::uint64_t serial, bool completed,
                             std::string_view error) noexcept {
  const auto known = [&](const Optimizer& one) { return one.serial == serial; };
  if (!known(optimizer_) && std::none_of(outer_optimizers_.begin(), outer_optimizers_.end(), known))
    return;  // a fetch has shown that it is over
  const Moment now;
  while (!known(optimizer_)) drop_optimizer(here.thread, now, error);
  const void* id = optimizer_.id;
  drop_optimizer(here.thread, now, error);
  end_event(here);
  if (!completed) return note_failure();
  if (optimizing()) return;  // one that is part of another
  ++g_taken;
  done_ = true;
  done_ns_ = now.ns;
  if (announced_ > 0) return;  // no sign of a loop of the program's own
  if (!step_open()) return;    // in a step of the program's own, which begins and ends by itself
  if (cycle_.repeats(id) || cycle_.taken() == 0) ++since_fetch_;
  cycle_.note(id);
}

void Training::skip_step(Here here, const void* optimizer) noexcept {
  if (announced_ == 0 && !optimizing()) {
    begin_event(here);
    place_optimizer(here, optimizer, false, Moment());
    if (step_open()) cycle_.note(optimizer);
    end_event(here);
  }
  done_ = true;
  ++g_skipped;
  if (step_open()) step_.stack->stack[step_.slot].static_attrs = names().skipped;
}

SONDE_HOT_DATA std::uint64_t Training::g_taken = 0;
std::uint64_t Training::g_skipped = 0;
SONDE_HOT_DATA bool Training::g_optimizers_known = false;

// Nobody fetches in there: their end was never announced, although they are over.
void Training::close_stale_optimizers(ThreadState& thread, const Moment& now) {
  if (!optimizing()) return;
  while (optimizing()) drop_optimizer(thread, now);
  note_failure();
}

}  // namespace sonde::hook
