// Steps of optimizers begin and end.
#include "engine/base/placement.h"
#include "engine/hook/names.h"
#include "engine/hook/plain.h"
#include "engine/hook/training.h"

namespace sonde::hook {

using record::ThreadState;

void Training::expect_optimizer(Here here, const void* optimizer) noexcept {
  if (claims_.announced > 0 || optimizers_.any()) return;
  place_optimizer(here, {.optimizer = optimizer}, Moment());
  end_event(here);
}

std::uint64_t Training::begin_optimizer(Here here, const void* optimizer, bool has_closure,
                                        std::uint32_t attrs) noexcept {
  const Moment now;
  if (!step_.done && !has_closure && goes_on(here)) [[likely]] {
    place_plainly();
    prove_plainly();
  } else {
    place_optimizer(here, {.optimizer = optimizer, .closure = has_closure}, now);
  }
  const bool apart = has_closure && claims_.trainers > 0;
  const std::uint64_t serial = optimizers_.begin(here, optimizer, attrs, apart, now);
  end_event(here);
  return serial;
}

void Training::place_optimizer(Here here, OptimizerCall call, const Moment& now) {
  if (claims_.announced > 0 || optimizers_.any()) return;
  begin_event(here);
  passes_.peeked = nullptr;
  if (call.closure && leaves_.unused()) {
    // What ran before is none of the closure's.
    if (step_.is_open() && step_.done) carve_check(here);
    conclude(here, now);
    pause_checks(here, now);
  }
  passes_.use_batches();
  learnt_.steps_by_optimizer = true;
  place(here, now, [&](Question asked) { return judge_optimizer(evidence(here), call, asked); });
}

void Training::end_optimizer(Here here, std::uint64_t serial, bool completed,
                             std::string_view error) noexcept {
  if (!optimizers_.has(serial)) return;  // a fetch has shown that it is over
  const Moment now;
  while (optimizers_.serial() != serial) optimizers_.end(here.thread, now, error);
  const void* id = optimizers_.id();
  optimizers_.end(here.thread, now, error);
  end_event(here);
  if (!completed) return passes_.note_failure();
  if (optimizers_.any()) return;  // one that is part of another
  ++g_taken;
  step_.done = true;
  step_.done_ns = now.ns;
  if (claims_.announced > 0) return;  // no sign of a loop of the program's own
  if (!step_.is_open()) return;  // in a step of the program's own, which begins and ends by itself
  if (cycle_.repeats(id) || cycle_.taken() == 0) ++passes_.since_fetch;
  cycle_.note(id);
}

void Training::skip_step(Here here, const void* optimizer) noexcept {
  if (claims_.announced == 0 && !optimizers_.any()) {
    place_optimizer(here, {.optimizer = optimizer}, Moment());
    if (step_.is_open()) cycle_.note(optimizer);
    end_event(here);
  }
  step_.done = true;
  ++g_skipped;
  if (step_.is_open()) record::set_static_attrs(step_.scope, names().skipped);
}

SONDE_HOT_DATA std::uint64_t Training::g_taken = 0;
std::uint64_t Training::g_skipped = 0;

// No loader is fetched from in there: their end was never announced, although they are over.
void Training::close_stale_optimizers(ThreadState& thread, const Moment& now) {
  if (!optimizers_.any()) return;
  while (optimizers_.any()) optimizers_.end(thread, now);
  passes_.note_failure();
}

}  // namespace sonde::hook
