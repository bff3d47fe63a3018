// Steps of optimizers begin and end.
#include <cstdint>
#include <string_view>

#include "engine/base/placement.h"
#include "engine/hook/event.h"
#include "engine/hook/judge.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/names.h"
#include "engine/hook/plain.h"
#include "engine/hook/seen.h"
#include "engine/hook/training.h"
#include "engine/hook/verdict.h"
#include "engine/record/lane.h"
#include "engine/record/stack.h"

namespace sonde::hook {

namespace {

// Ends what ran before an optimizer that runs the model itself, if it is over.
SONDE_COLD void end_before_closure(Seen& seen, Here here, const Moment& now) {
  const BeforeClosure found =
      judge_before_closure(seen.leaves, seen.step.is_open() && seen.step.done());
  if (found == BeforeClosure::kMayBeUsed) return;
  if (found == BeforeClosure::kWasLook) carve_look(seen, here);
  conclude(seen, here, now);
  pause_checks(seen, here, now);
}

SONDE_APART void place_optimizer(Seen& seen, Here here, OptimizerCall call, const Moment& now) {
  end_fetching_only(seen, here);
  if (seen.claims.announced > 0 || seen.optimizers.any()) return;
  begin_event(seen, here);
  seen.passes.peeked = nullptr;
  if (call.closure) end_before_closure(seen, here, now);
  seen.passes.use_batches();
  seen.learnt.steps_by_optimizer = true;
  place(seen, here, now,
        [&](Question asked) { return judge_optimizer(seen.evidence(here), call, asked); });
}

// An optimizer has stepped, and not as a part of another one's step.
SONDE_HOT void note_taken(Seen& seen, const void* optimizer, const Moment& now) noexcept {
  seen.step.note_done(now.ns);
  if (seen.claims.announced > 0) return;  // a trainer's step shows no loop of the program's own
  // In a step of the program's own, which begins and ends by itself.
  if (!seen.step.is_open()) return;
  if (seen.cycle.repeats(optimizer) || seen.cycle.taken() == 0) ++seen.passes.since_fetch;
  seen.cycle.note(optimizer);
}

}  // namespace

void Training::expect_optimizer(Here here, const void* optimizer) noexcept {
  if (seen_.claims.announced > 0 || seen_.optimizers.any()) return;
  place_optimizer(seen_, here, {.optimizer = optimizer}, Moment());
  end_event(seen_, here);
}

std::uint64_t Training::begin_optimizer(Here here, const void* optimizer, bool has_closure,
                                        std::uint32_t attrs) noexcept {
  const Moment now;
  if (!seen_.step.done() && !has_closure && goes_on(seen_, here)) [[likely]] {
    place_plainly(seen_);
    prove_plainly(seen_);
  } else {
    place_optimizer(seen_, here, {.optimizer = optimizer, .closure = has_closure}, now);
  }
  const bool apart = has_closure && seen_.claims.trainers > 0;
  const std::uint64_t serial = seen_.optimizers.begin(here, optimizer, attrs, apart, now);
  end_event(seen_, here);
  return serial;
}

void Training::end_optimizer(Here here, std::uint64_t serial, bool completed,
                             std::string_view error) noexcept {
  if (!seen_.optimizers.has(serial)) return;  // a fetch has shown that it is over
  const Moment now;
  while (seen_.optimizers.serial() != serial) seen_.optimizers.end(here.thread, now, error);
  const void* id = seen_.optimizers.id();
  seen_.optimizers.end(here.thread, now, error);
  end_event(seen_, here);
  if (!completed) return seen_.passes.note_failure();
  if (seen_.optimizers.any()) return;  // this step is a part of another optimizer's
  ++g_taken;
  note_taken(seen_, id, now);
}

void Training::skip_step(Here here, const void* optimizer) noexcept {
  if (seen_.claims.announced == 0 && !seen_.optimizers.any()) {
    place_optimizer(seen_, here, {.optimizer = optimizer}, Moment());
    if (seen_.step.is_open()) seen_.cycle.note(optimizer);
    end_event(seen_, here);
  }
  seen_.step.note_done();
  ++g_skipped;
  if (seen_.step.is_open()) record::set_static_attrs(seen_.step.handle(), names().skipped);
}

SONDE_HOT_DATA std::uint64_t Training::g_taken = 0;
std::uint64_t Training::g_skipped = 0;

}  // namespace sonde::hook
