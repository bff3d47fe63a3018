// Fetches from a loader begin and end.
#include <cstdint>
#include <string_view>

#include "engine/hook/judge.h"
#include "engine/hook/leaves.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/names.h"
#include "engine/hook/pass.h"
#include "engine/hook/plain.h"
#include "engine/hook/spans.h"
#include "engine/hook/training.h"
#include "engine/record/scope.h"
#include "engine/record/stack.h"

namespace sonde::hook {

void Training::begin_fetch(Here here, Pass& pass, Hint hint) noexcept {
  // A loader may read from another one: the program waits for the outermost.
  if (seen_.passes.fetch_depth++ > 0) return;
  const Moment now;
  const bool asked_again = pass.fetch.drained && pass.training == this;
  if (asked_again) [[unlikely]] {
    // The loader is exhausted, and is asked once more.
    begin_event(here);
  } else if (seen_.step.done() && hint == Hint::kNone && seen_.step.pass() == &pass &&
             goes_on(here) && seen_.leaves.empty() && record::is_open(pass.scope)) [[likely]] {
    begin_plain_fetch(here, pass, now);
  } else {
    begin_other_fetch(here, pass, hint, now);
  }
  seen_.running.pend = !seen_.claims.everything() && !asked_again;
  pass.fetch.load = open_span(here, {.name = names().data_load, .flags = record::kIsFetch}, now);
  pass.load_at = pass.fetch.load.sequence;
  end_event(here);
}

// The step is over, and the loader that makes the epoch gives the next batch.
void Training::begin_plain_fetch(Here here, Pass& pass, const Moment& now) {
  close_step(seen_, here.thread, now);
  pass.fetch.off = pass.relation.had_member = false;
  seen_.passes.note_fetch(pass);
  seen_.epochs.final_batch = pass.fetched_all();
  open_next_step(seen_, here, seen_.step.next(), now);
  seen_.step.note_fetch(pass);
  pass.fetch.opened_step = true;
  pass.note_step();
  seen_.others.touched = false;
}

void Training::begin_other_fetch(Here here, Pass& pass, Hint hint, const Moment& now) {
  begin_event(here);
  // A trainer's closure may fetch for itself; otherwise no program fetches inside an optimizer.
  if (!seen_.optimizers.is_apart()) close_stale_optimizers(here.thread, now);
  if (pass.training != nullptr && pass.training != this) leave(here.thread, pass);
  // A pass begins where its iterator was made (the workers are started there), unless something
  // else was recorded in between. What came before the pass ends there.
  const bool begins = pass.training == nullptr;
  const bool direct = begins && pass.begun.made_at == record::next_sequence(here.thread) &&
                      pass.begun.made_depth == record::depth_of(here.stack);
  const Moment start = direct ? now.since(pass.begun.made_ns) : Moment(now);
  if (begins) seen_.claims.fetches_for_trainer = only_fetches_for_another();
  if (!seen_.claims.everything()) conclude(here, start, &pass);
  const bool checks =
      begins ? begin_pass(here, pass, hint, start) : resume_pass(here, pass, hint, start);
  seen_.passes.peeked = nullptr;
  seen_.passes.note_fetch(pass);
  const std::uint64_t before = seen_.step.handle().sequence;
  if (!checks) {
    // `leading` is the pass that makes the epoch. Where the program or a trainer has opened the
    // epoch, the pass that fetches stands for it.
    const Pass* leading = seen_.passes.innermost();
    if (leading == nullptr || leading->evaluates) leading = &pass;
    seen_.epochs.final_batch = leading->fetched_all();
    rotate_step(seen_, here, now);
  }
  pass.fetch.opened_step = seen_.step.handle() && seen_.step.handle().sequence != before;
  if (pass.fetch.opened_step) {
    seen_.step.note_fetch(pass);
    pass.note_step();
  }
  if (pass.fetch.opened_step || checks) seen_.others.touched = false;
}

void Training::end_fetch(Here here, Pass& pass, Fetched outcome, bool gpu_work,
                         std::string_view error) noexcept {
  if (seen_.passes.fetch_depth == 0 || --seen_.passes.fetch_depth > 0) return;
  if (pass.training != this) return;
  const std::uint32_t begun =
      !gpu_work && pass.fetch.load ? record::view_of(pass.fetch.load).start_event() : 0;
  const Moment now = gpu_work ? Moment() : Moment(begun);
  switch (outcome) {
    case Fetched::kItem:
      end_leaf(seen_, here, pass.fetch.load, Leaf::Kind::kLoad, now);
      if (!seen_.plain) seen_.plain = begins_plain(pass);
      if (pass.fetch.count == 1 && seen_.leaves.size() == 1) seen_.passes.peeked = &pass;
      break;
    case Fetched::kEnd:
      end_passes_fetch(here, pass, now);
      break;
    case Fetched::kError:
      close_span(here.thread, pass.fetch.load, now, error);
      pass.fetch.failed = true;
      seen_.plain = false;
      break;
  }
  end_event(here);
}

// The fetch of this pass has opened a step: is it a plain one?
bool Training::begins_plain(const Pass& pass) const noexcept {
  return is_plain({.pass = pass,
                   .alone = seen_.passes.known.size() == 1 && seen_.passes.owners.size() == 1,
                   .opened_step = seen_.step.pass() == &pass && seen_.step.is_open_innermost() &&
                                  seen_.step.is_on(*seen_.stack),
                   .unclaimed = !seen_.claims.everything() && seen_.claims.trainers == 0 &&
                                seen_.claims.steps == 0,
                   .by_optimizer = seen_.learnt.steps_by_optimizer,
                   .nothing_else = seen_.passes.owed == nullptr &&
                                   seen_.step.left_of() == nullptr && !seen_.look.is_open() &&
                                   !seen_.counted.is_open() && !seen_.nested()});
}

// The loader is exhausted: there was neither a fetch nor a step, unless the dataset has recorded
// something.
void Training::end_passes_fetch(Here here, Pass& pass, const Moment& now) {
  seen_.plain = false;
  const bool nothing =
      pass.fetch.load && record::next_sequence(here.thread) == pass.fetch.load.sequence + 1;
  const bool gone = nothing && cancel(seen_, pass.fetch.load);
  if (!gone) close_span(here.thread, pass.fetch.load, now);
  if (pass.fetch.drained) return;
  const Unfinished rest = judge_unfinished(pass);
  pass.batches.per_step = rest.per_step;
  const NoMore found = judge_no_more(pass, rest.left, record::is_open(pass.scope));
  if (found == NoMore::kLeftovers) {
    pass.fetch.drained = true;
    pass.fetch.left = rest.left;
    seen_.epochs.final_batch = pass.on_last();
    return;
  }
  if (gone && pass.fetch.opened_step) cancel_step(seen_);
  if (found == NoMore::kEmptyScope && cancel(seen_, pass.scope)) return forget(seen_, pass);
  if (pass.fetch.count == 1) pass.fetch.count = 2;  // the loader is empty: that is not a peek
  finish(seen_, here.thread, pass, now);
  open_owed_step(seen_, here, now);
}

}  // namespace sonde::hook
