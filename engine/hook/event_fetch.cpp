// Fetches from a loader begin and end.
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/base/placement.h"
#include "engine/hook/event.h"
#include "engine/hook/judge.h"
#include "engine/hook/leaves.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/names.h"
#include "engine/hook/pass.h"
#include "engine/hook/plain.h"
#include "engine/hook/seen.h"
#include "engine/hook/spans.h"
#include "engine/hook/training.h"
#include "engine/record/lane.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

namespace {

// The step is over, and the loader that makes the epoch gives the next batch.
SONDE_HOT void begin_plain_fetch(Seen& seen, Here here, Pass& pass, const Moment& now) {
  close_step(seen, here.thread, now);
  pass.fetch.off = pass.relation.had_member = false;
  seen.passes.note_fetch(pass);
  seen.epochs.final_batch = pass.fetched_all();
  open_next_step(seen, here, seen.step.next(), now);
  seen.step.note_fetch(pass);
  pass.fetch.opened_step = true;
  pass.note_step();
  seen.others.touched = false;
}

// The fetch of this pass has opened a step: is it a plain one?
SONDE_COLD bool begins_plain(const Seen& seen, const Pass& pass) noexcept {
  return is_plain({.pass = pass,
                   .alone = seen.passes.known.size() == 1 && seen.passes.owners.size() == 1,
                   .opened_step = seen.step.pass() == &pass && seen.step.is_open_innermost() &&
                                  seen.step.is_on(*seen.stack),
                   .unclaimed = !seen.claims.everything() && seen.claims.trainers == 0 &&
                                seen.claims.steps == 0,
                   .by_optimizer = seen.learnt.steps_by_optimizer,
                   .nothing_else = seen.passes.owed == nullptr && seen.step.left_of() == nullptr &&
                                   !seen.look.is_open() && !seen.counted.is_open() &&
                                   !seen.nested()});
}

}  // namespace

void Training::begin_fetch(Here here, Pass& pass, Hint hint) noexcept {
  // A loader may read from another one: the program waits for the outermost.
  if (seen_.passes.fetch_depth++ > 0) return;
  const Moment now;
  const bool asked_again = pass.fetch.drained && pass.seen == &seen_;
  if (asked_again) [[unlikely]] {
    // The loader is exhausted, and is asked once more.
    begin_event(seen_, here);
  } else if (seen_.step.done() && hint == Hint::kNone && seen_.step.pass() == &pass &&
             goes_on(seen_, here) && seen_.leaves.empty() && record::is_open(pass.scope))
      [[likely]] {
    begin_plain_fetch(seen_, here, pass, now);
  } else {
    begin_other_fetch(here, pass, hint, now);
  }
  seen_.running.pend = !seen_.claims.everything() && !asked_again;
  pass.fetch.load = open_span(here, {.name = names().data_load, .flags = record::kIsFetch}, now);
  pass.load_at = pass.fetch.load.sequence;
  end_event(seen_, here);
}

void Training::begin_other_fetch(Here here, Pass& pass, Hint hint, const Moment& now) {
  if (pass.seen != &seen_) seen_.claims.fetches_for_trainer = only_fetches_for_another();
  place_fetch(seen_, here, pass, hint, now);
}

void Training::end_fetch(Here here, Pass& pass, Fetched outcome, bool gpu_work,
                         std::string_view error) noexcept {
  if (seen_.passes.fetch_depth == 0 || --seen_.passes.fetch_depth > 0) return;
  if (pass.seen != &seen_) return;
  const std::uint32_t begun =
      !gpu_work && pass.fetch.load ? record::view_of(pass.fetch.load).start_event() : 0;
  const Moment now = gpu_work ? Moment() : Moment(begun);
  switch (outcome) {
    case Fetched::kItem:
      end_leaf(seen_, here, pass.fetch.load, Leaf::Kind::kLoad, now);
      if (!seen_.plain) seen_.plain = begins_plain(seen_, pass);
      if (pass.fetch.count == 1 && seen_.leaves.size() == 1) seen_.passes.peeked = &pass;
      break;
    case Fetched::kEnd:
      exhaust(seen_, here, pass, now);
      break;
    case Fetched::kError:
      close_span(here.thread, pass.fetch.load, now, error);
      pass.fetch.failed = true;
      seen_.plain = false;
      break;
  }
  end_event(seen_, here);
}

void Training::use_newest(Pass& pass) noexcept {
  if (pass.seen == &seen_) pass.skip_to_newest();
}

void Training::end_pass(record::ThreadState* thread, std::unique_ptr<Pass> pass) noexcept {
  Seen* seen = pass->seen;
  if (seen == nullptr) return;
  if (thread == nullptr) return forget(*seen, *pass);
  if (pass->fetch.drained && seen->is_current(*thread)) {
    seen->passes.kept.push_back(std::move(pass));
    return;
  }
  leave(*thread, *pass);
}

}  // namespace sonde::hook
