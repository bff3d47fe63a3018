// Steps of optimizers begin and end.
#include <cstdint>
#include <string_view>

#include "engine/base/placement.h"
#include "engine/hook/judge.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/names.h"
#include "engine/hook/plain.h"
#include "engine/hook/training.h"
#include "engine/hook/verdict.h"
#include "engine/record/lane.h"
#include "engine/record/stack.h"

namespace sonde::hook {

using record::ThreadState;

void Training::expect_optimizer(Here here, const void* optimizer) noexcept {
  if (seen_.claims.announced > 0 || seen_.optimizers.any()) return;
  place_optimizer(here, {.optimizer = optimizer}, Moment());
  end_event(here);
}

std::uint64_t Training::begin_optimizer(Here here, const void* optimizer, bool has_closure,
                                        std::uint32_t attrs) noexcept {
  const Moment now;
  if (!seen_.step.done() && !has_closure && goes_on(here)) [[likely]] {
    place_plainly();
    prove_plainly();
  } else {
    place_optimizer(here, {.optimizer = optimizer, .closure = has_closure}, now);
  }
  const bool apart = has_closure && seen_.claims.trainers > 0;
  const std::uint64_t serial = seen_.optimizers.begin(here, optimizer, attrs, apart, now);
  end_event(here);
  return serial;
}

void Training::place_optimizer(Here here, OptimizerCall call, const Moment& now) {
  end_fetching_only(here);
  if (seen_.claims.announced > 0 || seen_.optimizers.any()) return;
  begin_event(here);
  seen_.passes.peeked = nullptr;
  if (call.closure) end_before_closure(here, now);
  seen_.passes.use_batches();
  seen_.learnt.steps_by_optimizer = true;
  place(seen_, here, now,
        [&](Question asked) { return judge_optimizer(seen_.evidence(here), call, asked); });
}

// Ends what ran before an optimizer that runs the model itself, if it is over.
void Training::end_before_closure(Here here, const Moment& now) {
  const BeforeClosure found =
      judge_before_closure(seen_.leaves, seen_.step.is_open() && seen_.step.done());
  if (found == BeforeClosure::kMayBeUsed) return;
  if (found == BeforeClosure::kWasLook) carve_look(seen_, here);
  conclude(here, now);
  pause_checks(seen_, here, now);
}

void Training::end_optimizer(Here here, std::uint64_t serial, bool completed,
                             std::string_view error) noexcept {
  if (!seen_.optimizers.has(serial)) return;  // a fetch has shown that it is over
  const Moment now;
  while (seen_.optimizers.serial() != serial) seen_.optimizers.end(here.thread, now, error);
  const void* id = seen_.optimizers.id();
  seen_.optimizers.end(here.thread, now, error);
  end_event(here);
  if (!completed) return seen_.passes.note_failure();
  if (seen_.optimizers.any()) return;  // this step is a part of another optimizer's
  ++g_taken;
  seen_.step.note_done(now.ns);
  if (seen_.claims.announced > 0) return;  // a trainer's step shows no loop of the program's own
  // In a step of the program's own, which begins and ends by itself.
  if (!seen_.step.is_open()) return;
  if (seen_.cycle.repeats(id) || seen_.cycle.taken() == 0) ++seen_.passes.since_fetch;
  seen_.cycle.note(id);
}

void Training::skip_step(Here here, const void* optimizer) noexcept {
  if (seen_.claims.announced == 0 && !seen_.optimizers.any()) {
    place_optimizer(here, {.optimizer = optimizer}, Moment());
    if (seen_.step.is_open()) seen_.cycle.note(optimizer);
    end_event(here);
  }
  seen_.step.note_done();
  ++g_skipped;
  if (seen_.step.is_open()) record::set_static_attrs(seen_.step.handle(), names().skipped);
}

SONDE_HOT_DATA std::uint64_t Training::g_taken = 0;
std::uint64_t Training::g_skipped = 0;

// No program fetches inside a step of an optimizer: the steps under way are over, although nothing
// has said so.
void Training::close_stale_optimizers(ThreadState& thread, const Moment& now) {
  if (!seen_.optimizers.any()) return;
  while (seen_.optimizers.any()) seen_.optimizers.end(thread, now);
  seen_.passes.note_failure();
}

}  // namespace sonde::hook
