// Fetches from a loader begin and end.
#include "engine/hook/names.h"
#include "engine/hook/plain.h"
#include "engine/hook/training.h"

namespace sonde::hook {

void Training::begin_fetch(Here here, Pass& pass, Hint hint) noexcept {
  // A loader that reads from another loader: the outermost is what the program waits for.
  if (passes_.fetch_depth++ > 0) return;
  const Moment now;
  const bool asked_again = pass.drained && pass.training == this;
  if (asked_again) [[unlikely]] {
    // It is asked once more, and has no more.
    begin_event(here);
  } else if (step_.done && hint == Hint::kNone && step_.pass == &pass && goes_on(here) &&
             leaves_.empty() && record::is_open(pass.scope)) [[likely]] {
    begin_plain_fetch(here, pass, now);
  } else {
    begin_other_fetch(here, pass, hint, now);
  }
  running_.pend = claims_.announced == 0 && !asked_again;
  pass.load = open_span(here, {.name = names().data_load, .flags = record::kIsFetch}, now);
  pass.load_at = pass.load.sequence;
  end_event(here);
}

// The next batch of the loader that makes the epoch, behind a step.
void Training::begin_plain_fetch(Here here, Pass& pass, const Moment& now) {
  close_step(here.thread, now);
  pass.off = pass.had_member = false;
  passes_.note_fetch(pass);
  epochs_.final_batch = pass.fetched_all();
  open_next_step(here, step_.next, now);
  step_.pass = &pass;
  pass.fresh_step = true;
  pass.note_step();
  others_.touched = false;
}

void Training::begin_other_fetch(Here here, Pass& pass, Hint hint, const Moment& now) {
  begin_event(here);
  // A trainer's closure may fetch for itself; otherwise no program fetches inside an optimizer.
  if (!optimizers_.is_apart()) close_stale_optimizers(here.thread, now);
  if (pass.training != nullptr && pass.training != this) leave(here.thread, pass);
  // A pass begins where its iterator was asked for (workers are started there), unless something
  // else came between; what was before it ends there.
  const bool begins = pass.training == nullptr;
  const bool direct = begins && pass.made_at == record::next_sequence(here.thread) &&
                      pass.made_depth == record::depth_of(here.stack);
  const Moment start = direct ? now.since(pass.made_ns) : Moment(now);
  if (claims_.announced == 0) conclude(here, start, &pass);
  const bool checks =
      begins ? begin_pass(here, pass, hint, start) : resume_pass(here, pass, hint, start);
  passes_.peeked = nullptr;
  passes_.note_fetch(pass);
  const std::uint64_t before = step_.scope.sequence;
  if (!checks) {
    // What makes the epoch, where that is another pass, or an owner's, which this one stands for.
    const Pass* leading = passes_.innermost();
    if (leading == nullptr || leading->evaluates) leading = &pass;
    epochs_.final_batch = leading->fetched_all();
    rotate_step(here, now);
  }
  pass.fresh_step = step_.scope && step_.scope.sequence != before;
  if (pass.fresh_step) {
    step_.pass = &pass;
    pass.note_step();
  }
  if (pass.fresh_step || checks) others_.touched = false;
}

void Training::end_fetch(Here here, Pass& pass, Fetched outcome, bool gpu_work,
                         std::string_view error) noexcept {
  if (passes_.fetch_depth == 0 || --passes_.fetch_depth > 0) return;
  if (pass.training != this) return;
  const std::uint32_t begun =
      !gpu_work && pass.load ? record::scope_at(here.stack, pass.load.slot).start_event() : 0;
  const Moment now = gpu_work ? Moment() : Moment(begun);
  switch (outcome) {
    case Fetched::kItem:
      end_leaf(here, pass.load, Leaf::Kind::kLoad, now);
      if (!plain_) plain_ = begins_plain(pass);
      if (pass.fetches == 1 && leaves_.size() == 1) passes_.peeked = &pass;
      break;
    case Fetched::kEnd:
      end_passes_fetch(here, pass, now);
      break;
    case Fetched::kError:
      close_span(here.thread, pass.load, now, error);
      pass.failed = true;
      plain_ = false;
      break;
  }
  end_event(here);
}

// Its fetch has opened a step: is that like the others, as far as can be told?
bool Training::begins_plain(const Pass& pass) const noexcept {
  return is_plain(
      {.pass = pass,
       .alone = passes_.known.size() == 1 && passes_.owners.size() == 1,
       .opened_step = step_.pass == &pass && step_.is_open_innermost() && step_.is_on(*stack_),
       .unclaimed = claims_.announced == 0 && claims_.trainers == 0 && claims_.steps == 0,
       .by_optimizer = learnt_.steps_by_optimizer,
       .nothing_else = step_.owed == nullptr && step_.left_of == nullptr && !look_.is_open() &&
                       !counted_.is_open() && !nested()});
}

// There was nothing more: neither a fetch nor a step. Unless the dataset recorded something.
void Training::end_passes_fetch(Here here, Pass& pass, const Moment& now) {
  plain_ = false;
  const bool nothing = pass.load && record::next_sequence(here.thread) == pass.load.sequence + 1;
  const bool gone = nothing && cancel(pass.load);
  if (!gone) close_span(here.thread, pass.load, now);
  if (pass.drained) return;
  const std::uint32_t left = pass.count_unfinished();
  const NoMore found = judge_no_more(pass, left, record::is_open(pass.scope));
  if (found == NoMore::kLeftovers) {
    pass.drained = true;
    pass.left = left;
    epochs_.final_batch = pass.on_last();
    return;
  }
  if (gone && pass.fresh_step) cancel_step();
  if (found == NoMore::kNoneOpened && cancel(pass.scope)) return forget(pass);
  if (pass.fetches == 1) pass.fetches = 2;  // empty, but no peek
  finish(here.thread, pass, now);
  open_owed_step(here, now);
}

}  // namespace sonde::hook
