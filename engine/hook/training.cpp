#include "engine/hook/training.h"

#include <algorithm>
#include <memory>

#include "engine/hook/level.h"
#include "engine/hook/names.h"

namespace sonde::hook {

using record::Lane;
using record::OpenScope;
using record::ScopeHandle;
using record::ThreadState;

namespace {

std::uint32_t g_session = 1;
std::uint32_t g_steps_per_epoch = 1000;
Training::StepEnd g_step_end = nullptr;
// By number of lane; made when a stack is first heard of, kept for ever.
std::vector<std::unique_ptr<Training>> g_trainings;

}  // namespace

Pass::Pass(Here here, const void* source, std::uint64_t now) noexcept
    : source_(source), made_ns_(now), made_at_(here.thread.lane->next_sequence) {}

// -- state --

Training& Training::of(Here here) noexcept {
  const std::uint32_t number = here.stack.number;
  if (number >= g_trainings.size()) [[unlikely]]
    g_trainings.resize(number + 1);
  std::unique_ptr<Training>& slot = g_trainings[number];
  if (!slot) [[unlikely]]
    slot = std::make_unique<Training>();
  if (slot->tenancy_ != here.stack.tenancy || slot->session_ != g_session ||
      slot->generation_ != here.thread.generation) [[unlikely]]
    slot->begin_tenancy(here);
  return *slot;
}

void Training::begin_tenancy(Here here) noexcept {
  intern_names();
  for (Pass* pass : known_) pass->training_ = nullptr;
  *this = Training();
  stack_ = &here.stack;
  tenancy_ = here.stack.tenancy;
  session_ = g_session;
  generation_ = here.thread.generation;
}

void Training::begin_session(std::uint32_t steps_per_epoch) noexcept {
  ++g_session;
  g_steps_per_epoch = std::max<std::uint32_t>(1, steps_per_epoch);
}

void Training::on_step_end(StepEnd callback) noexcept { g_step_end = callback; }

void Training::settle_all(ThreadState& thread) noexcept {
  for (const auto& training : g_trainings) {
    if (training && training->held_ != nullptr && training->generation_ == thread.generation)
      training->confirm(thread);
  }
}

// -- the stack --

bool Training::taken(const Lane& stack, Level level) const noexcept {
  if (announced_ > 0 || owned(stack, level)) return true;
  if (level == Level::kEpoch) return trainers_ > 0;
  return level == Level::kStep &&
         (claims_ > 0 || (trainers_ > 0 && open_level(stack, names().epoch) == 0));
}

bool Training::owned(const Lane& stack, Level level) const noexcept {
  const Names& name = names();
  const std::uint32_t depth = stack.depth.load(std::memory_order_relaxed);
  for (std::uint32_t slot = depth; slot-- > 0;) {
    const OpenScope& scope = stack.stack[slot];
    const std::uint8_t flags = scope.flags.load(std::memory_order_relaxed);
    if ((flags & record::kSlotClosed) != 0) continue;
    switch (level) {
      case Level::kEpoch:
        if ((flags & record::kOwnsEpochs) != 0) return true;
        if (scope.name != name.epoch || scope.sequence == fallback_epoch_.sequence) break;
        if (std::none_of(owners_.begin(), owners_.end(),
                         [&](const Pass* pass) { return pass->scope_.sequence == scope.sequence; }))
          return true;
        break;
      case Level::kStep:
        if ((flags & record::kOwnsSteps) != 0) return true;
        if ((scope.name == name.step || scope.name == name.batch) &&
            scope.sequence != step_.sequence)
          return true;
        break;
      case Level::kValidation:
        if ((flags & record::kOwnsValidation) != 0 || scope.name == name.validation) return true;
        break;
    }
  }
  return false;
}

ScopeHandle Training::open(Here here, record::ScopeStart start, const Moment& now) {
  if (const std::uint32_t event = now.event(); event != 0) {
    start.aux = event;
    start.flags |= record::kHasGpu;
  }
  if (start.start_ns == 0) start.start_ns = now.ns;
  const ScopeHandle scope = record::open_scope(here.thread, here.stack, start);
  if (!scope) [[unlikely]]
    probe::gpu_release(static_cast<std::uint32_t>(start.aux));
  return scope;
}

void Training::close(ThreadState& thread, ScopeHandle& scope, const Moment& now) {
  if (record::is_open(scope)) {
    OpenScope& slot = scope.stack->stack[scope.slot];
    if ((slot.flags.load(std::memory_order_relaxed) & record::kHasGpu) != 0)
      slot.aux |= std::uint64_t{now.event()} << 32;
    record::close_scope(thread, scope, {}, now.ns);
  }
  scope = {};
}

// As if it had never been opened. Only for the innermost.
bool Training::cancel(ScopeHandle& scope) {
  if (!scope) return true;
  const std::uint64_t aux = scope.stack->stack[scope.slot].aux;
  const bool has_gpu = (scope.stack->stack[scope.slot].flags.load() & record::kHasGpu) != 0;
  if (!record::cancel_scope(scope)) return false;
  if (has_gpu) probe::gpu_release(static_cast<std::uint32_t>(aux));
  scope = {};
  return true;
}

void Training::close_step(ThreadState& thread, const Moment& now) {
  if (g_step_end != nullptr && now.event_number() != 0 && record::is_open(step_))
    g_step_end(now.event_number());
  close(thread, step_, now);
}

bool Training::cancel_step() {
  if (!cancel(step_)) return false;
  --next_step_;
  return true;
}

// -- passes --

// A pass that saw an epoch's owner, or another epoch of ours, feeds that one; what looks like
// validation gets a scope of its own in there.
void Training::begin_pass(Here here, Pass& pass, bool looks_like_eval, const Moment& now) {
  pass.training_ = this;
  pass.failed_ = pass.saw_train_ = pass.saw_eval_ = false;
  pass.fetches_ = 0;
  // What is open from before is none of a trainer's business.
  const bool announced = announced_ > 0;
  if (!loader_seen_ && !announced) {
    loader_seen_ = true;
    end_fallback(here.thread, now);
  }
  // A batch looked at, and then another iterator: the first one was a peek. (Iterators made before
  // the first fetch are companions, as in zip.)
  if (held_ != nullptr && pass.made_at_ >= held_at_) drop_peek(here.thread);
  confirm(here.thread);
  while (Pass* outer = announced ? nullptr : innermost()) {
    const bool over = !record::is_open(outer->scope_) || outer->source_ == pass.source_ ||
                      outer->failed_ ||
                      (outer->fetches_ == 1 && !outer->saw_train_ && !outer->saw_eval_ &&
                       pass.made_at_ >= held_at_ && outer == last_);
    if (!over) break;
    finish(here.thread, *outer, now);
  }
  if (taken(here.stack, Level::kValidation)) {
    pass.role_ = Pass::Role::kMember;
    pass.eval_ = true;
  } else if (taken(here.stack, Level::kEpoch) || innermost() != nullptr) {
    pass.nested_ = true;
    pass.eval_ = looks_like_eval;
    if (looks_like_eval) {
      own(here, pass, true, now);
    } else {
      pass.role_ = Pass::Role::kMember;
    }
  } else {
    pass.nested_ = false;
    own(here, pass, looks_like_eval, now);
  }
  known_.push_back(&pass);
}

void Training::own(Here here, Pass& pass, bool eval, const Moment& now) {
  pass.role_ = Pass::Role::kOwner;
  pass.eval_ = eval;
  record::ScopeStart start;
  start.name = eval ? names().validation : names().epoch;
  if (!eval) {
    start.index = next_epoch_;
    start.flags = record::kHasIndex;
  }
  // From where the iterator was asked for (workers are started there), unless something else came
  // between.
  if (pass.made_at_ == here.thread.lane->next_sequence) start.start_ns = pass.made_ns_;
  pass.scope_ = open(here, start, now);
  owners_.push_back(&pass);
}

// What the pass is called, from what it has seen so far.
void Training::label(Pass& pass) {
  if (pass.role_ != Pass::Role::kOwner) return;
  if (pass.saw_train_ && !pass.nested_) {
    record::relabel_scope(pass.scope_, names().epoch, next_epoch_);
  } else if (pass.saw_train_) {
    record::relabel_scope(pass.scope_, names().epoch, record::kNoIndex);
  } else if (pass.saw_eval_) {
    record::relabel_scope(pass.scope_, names().validation, record::kNoIndex);
  }
}

void Training::forget(Pass& pass) {
  std::erase(known_, &pass);
  std::erase(owners_, &pass);
  if (last_ == &pass) last_ = nullptr;
  if (step_pass_ == &pass) step_pass_ = nullptr;
  if (held_ == &pass) held_ = nullptr;
  pass.role_ = Pass::Role::kNone;
  pass.training_ = nullptr;
  pass.scope_ = {};
}

void Training::finish(ThreadState& thread, Pass& pass, const Moment& now) {
  if (held_ == &pass) confirm(thread);
  if (pass.role_ == Pass::Role::kOwner && pass.scope_) {
    const bool open = record::is_open(pass.scope_);
    if (open && record::is_open(step_) && step_.stack == pass.scope_.stack &&
        step_.slot > pass.scope_.slot)
      close_step(thread, now);
    const bool looked_only = pass.fetches_ <= 1 && !pass.saw_train_ && !pass.saw_eval_;
    const bool epoch = !pass.nested_ && (pass.saw_train_ || (!pass.eval_ && !pass.saw_eval_));
    if (looked_only) {
      record::relabel_scope(pass.scope_, names().peek, record::kNoIndex);
    } else if (epoch) {
      ++next_epoch_;
    }
    close(thread, pass.scope_, now);
  } else {
    end_own_step(thread, pass, now);
  }
  forget(pass);
}

void Training::end_pass(ThreadState* thread, Pass& pass) noexcept {
  Training* training = pass.training_;
  if (training == nullptr || thread == nullptr || training->generation_ != thread->generation ||
      training->session_ != g_session) {
    if (training != nullptr) training->forget(pass);
    return;
  }
  // One batch and nothing done with it: that was a look, not an epoch.
  if (training->held_ == &pass && pass.fetches_ == 1 && training->drop_peek(*thread)) return;
  training->finish(*thread, pass, Moment());
}

// -- the first data_load of a pass --

void Training::hold(ThreadState& thread, Pass& pass, const Moment& now) {
  const OpenScope& scope = pass.load_.stack->stack[pass.load_.slot];
  held_load_ = {.sequence = scope.sequence,
                .parent = scope.parent,
                .start_ns = scope.start_ns,
                .end_ns = now.ns,
                .aux = scope.aux,
                .name = scope.name,
                .flags = scope.flags.load(std::memory_order_relaxed)};
  if (!record::cancel_scope(pass.load_)) return;  // not the innermost: somebody leaves scopes open
  pass.load_ = {};
  if ((held_load_.flags & record::kHasGpu) != 0) held_load_.aux |= std::uint64_t{now.event()} << 32;
  held_ = &pass;
  held_at_ = thread.lane->next_sequence;
}

void Training::confirm(ThreadState& thread) {
  if (held_ == nullptr) return;
  held_ = nullptr;
  record::write_span(thread, held_load_);
}

// Nothing was recorded on this thread since the fetch that is held: its scopes have no children.
bool Training::untouched(const ThreadState& thread) const {
  return thread.lane->next_sequence == held_at_;
}

// Takes the scopes of a pass back that was only looked into; the fetch itself stays.
bool Training::drop_peek(ThreadState& thread) {
  Pass& pass = *held_;
  const bool owner = pass.role_ == Pass::Role::kOwner;
  if (!untouched(thread)) return false;
  if (pass.fresh_step_ && !cancel_step()) return false;
  if (owner && !cancel(pass.scope_)) return false;
  if (owner || pass.fresh_step_) held_load_.parent = record::current_parent(*stack_);
  confirm(thread);
  forget(pass);
  return true;
}

// The first thing done with the first batch is a forward in evaluation mode.
void Training::turn_into_validation(Here here) {
  Pass& pass = *held_;
  if (pass.eval_ || !untouched(here.thread) || !pass.fresh_step_ || !cancel_step()) return;
  pass.eval_ = true;
  if (pass.role_ == Pass::Role::kMember) {
    record::ScopeStart start;
    start.name = names().validation;
    start.start_ns = held_load_.start_ns;
    pass.scope_ = record::open_scope(here.thread, here.stack, start);
    pass.role_ = Pass::Role::kOwner;
    owners_.push_back(&pass);
  }
  held_load_.parent = record::current_parent(here.stack);
}

// It looked like validation (the model was left in evaluation mode by the last one), and is none:
// the first batch gets its step after all.
void Training::turn_into_training(Here here, const Moment& now) {
  Pass& pass = *held_;
  if (!pass.eval_ || pass.role_ != Pass::Role::kOwner || !untouched(here.thread)) return;
  if (pass.nested_) {
    if (!cancel(pass.scope_)) return;
    std::erase(owners_, &pass);
    pass.role_ = Pass::Role::kMember;
  }
  pass.eval_ = false;
  pass.saw_train_ = true;
  label(pass);
  if (!record::is_open(step_) && !taken(here.stack, Level::kStep)) {
    open_step(here, -1, now);
    step_pass_ = &pass;
    if (step_) here.stack.stack[step_.slot].start_ns = held_load_.start_ns;
  }
  held_load_.parent = record::current_parent(here.stack);
}

void Training::settle_as_training(Here here, const Moment& now) {
  if (held_ != nullptr) turn_into_training(here, now);
  confirm(here.thread);
  note(Mode::kTrain);
}

// -- fetching --

void Training::begin_fetch(Here here, Pass& pass, bool looks_like_eval) noexcept {
  // A loader that reads from another loader: the outermost is what the program waits for.
  if (fetch_depth_++ > 0) return;
  const Moment now;
  optimizer_closure_ =
      false;  // nobody fetches in a closure: an optimizer that is still open raised
  close_stale_optimizer(here.thread, now);
  if (pass.training_ != nullptr && pass.training_ != this) end_pass(&here.thread, pass);
  if (pass.training_ == nullptr) {
    pass.role_ = Pass::Role::kNone;
    begin_pass(here, pass, looks_like_eval, now);
  } else {
    confirm(here.thread);
    if (pass.role_ == Pass::Role::kOwner && !record::is_open(pass.scope_)) {
      // Closed together with a scope around it: from now on it feeds whatever is there.
      if (!pass.nested_ && !pass.eval_) ++next_epoch_;
      std::erase(owners_, &pass);
      pass.role_ = Pass::Role::kMember;
    }
  }
  ++pass.fetches_;
  pass.failed_ = false;
  last_ = &pass;
  const std::uint64_t before = step_.sequence;
  if (pass.eval_ && !pass.saw_train_) {
    end_own_step(here.thread, pass, now);
  } else {
    rotate_step(here, now);
  }
  pass.fresh_step_ = step_ && step_.sequence != before;
  if (pass.fresh_step_) step_pass_ = &pass;
  record::ScopeStart start;
  start.name = names().data_load;
  pass.load_ = open(here, start, now);
}

void Training::end_fetch(Here here, Pass& pass, Fetched outcome) noexcept {
  if (fetch_depth_ == 0 || --fetch_depth_ > 0) return;
  if (pass.training_ != this) return;
  const Moment now;
  switch (outcome) {
    case Fetched::kItem:
      if (pass.fetches_ == 1 && pass.load_) {
        hold(here.thread, pass, now);
        if (held_ == &pass) return;
      }
      close(here.thread, pass.load_, now);
      return;
    case Fetched::kEnd: {
      // There was nothing more: neither a fetch nor a step. Unless the dataset recorded something.
      const bool nothing = pass.load_ && here.thread.lane->next_sequence == pass.load_.sequence + 1;
      if (nothing && cancel(pass.load_)) {
        if (pass.fresh_step_) cancel_step();
      } else {
        close(here.thread, pass.load_, now);
      }
      if (pass.fetches_ == 1) pass.fetches_ = 2;  // empty, but no peek
      finish(here.thread, pass, now);
      return;
    }
    case Fetched::kError:
      close(here.thread, pass.load_, now);
      pass.failed_ = true;
      return;
  }
}

// -- steps --

void Training::rotate_step(Here here, const Moment& now) {
  if (record::is_open(step_)) {
    // Accumulating, or a scope of the program's reaches across: the step goes on.
    if (!step_done_ || step_.stack != &here.stack || !record::is_innermost(step_)) return;
    close_step(here.thread, now);
  }
  if (taken(here.stack, Level::kStep)) return;
  open_step(here, -1, now);
}

// What this pass opened, and nobody built upon.
void Training::end_own_step(ThreadState& thread, const Pass& pass, const Moment& now) {
  if (step_pass_ == &pass && record::is_open(step_) && record::is_innermost(step_))
    close_step(thread, now);
}

// Index -1: counted.
void Training::open_step(Here here, std::int64_t index, const Moment& now) {
  if (const std::uint64_t epoch = open_level(here.stack, names().epoch); epoch != step_epoch_) {
    step_epoch_ = epoch;
    next_step_ = 0;
  }
  record::ScopeStart start;
  start.name = names().step;
  start.index = index >= 0 ? index : next_step_;
  start.flags = record::kHasIndex;
  ++next_step_;
  step_ = open(here, start, now);
  step_done_ = false;
}

// -- without a loader --

// No loader has been seen on this stack: an optimizer step is the only sign of a step, and a number
// of them makes an epoch.
void Training::step_without_loader(Here here, const Moment& now) {
  if (loader_seen_ || optimizer_steps_ == 0) return;
  if (record::is_open(step_) && !step_done_) return;
  if (taken(here.stack, Level::kStep)) return;
  if (record::is_open(fallback_epoch_) && steps_in_epoch_ >= g_steps_per_epoch &&
      (!record::is_open(step_) || record::is_innermost(step_))) {
    close_step(here.thread, now);
    if (record::is_innermost(fallback_epoch_)) {
      close(here.thread, fallback_epoch_, now);
      ++next_epoch_;
    }
  }
  if (!record::is_open(fallback_epoch_) && !taken(here.stack, Level::kEpoch)) {
    record::ScopeStart start;
    start.name = names().epoch;
    start.index = next_epoch_;
    start.flags = record::kHasIndex;
    fallback_epoch_ = open(here, start, now);
    steps_in_epoch_ = 0;
  }
  rotate_step(here, now);
}

void Training::end_fallback(ThreadState& thread, const Moment& now) {
  if (!fallback_epoch_) return;
  if (record::is_open(fallback_epoch_)) {
    close_step(thread, now);
    close(thread, fallback_epoch_, now);
  }
  fallback_epoch_ = {};
  ++next_epoch_;
}

// -- a model --

// To the pass whose batch this is, and to the epoch it feeds.
void Training::note(Mode mode) {
  for (Pass* pass : {last_, innermost()}) {
    if (pass == nullptr) continue;
    bool& seen = mode == Mode::kTrain ? pass->saw_train_ : pass->saw_eval_;
    if (seen) continue;
    seen = true;
    if (mode == Mode::kEval && !pass->saw_train_) pass->eval_ = true;
    label(*pass);
  }
}

void Training::note_failure() {
  if (last_ != nullptr) last_->failed_ = true;
  if (Pass* pass = innermost()) pass->failed_ = true;
}

ScopeHandle Training::begin_forward(Here here, Mode mode, bool another_trains) noexcept {
  const Moment now;
  close_stale_optimizer(here.thread, now);
  if (mode == Mode::kTrain) {
    settle_as_training(here, now);
  } else {
    if (held_ != nullptr && !another_trains) turn_into_validation(here);
    confirm(here.thread);
    note(mode);
  }
  if (!loader_seen_ && mode == Mode::kTrain && !optimizer_) step_without_loader(here, now);
  record::ScopeStart start;
  start.name = names().forward;
  start.static_attrs = mode == Mode::kTrain ? names().train_mode : names().eval_mode;
  return open(here, start, now);
}

ScopeHandle Training::begin_backward(Here here) noexcept {
  const Moment now;
  close_stale_optimizer(here.thread, now);
  settle_as_training(here, now);
  record::ScopeStart start;
  start.name = names().backward;
  return open(here, start, now);
}

void Training::end(Here here, const ScopeHandle& scope, bool failed) noexcept {
  if (failed) note_failure();
  ScopeHandle mine = scope;
  if (mine) close(here.thread, mine, Moment());
}

void Training::begin_optimizer(Here here, bool has_closure) noexcept {
  const Moment now;
  if (record::is_open(optimizer_)) {
    if (optimizer_closure_) return;  // one optimizer inside another's closure
    close_stale_optimizer(here.thread, now);
  }
  settle_as_training(here, now);
  closure_apart_ = has_closure && trainers_ > 0;
  if (!closure_apart_) open_optimizer(here, has_closure, now);
}

void Training::open_optimizer(Here here, bool has_closure, const Moment& now) {
  record::ScopeStart start;
  start.name = names().optimizer_step;
  optimizer_ = open(here, start, now);
  optimizer_closure_ = has_closure;
}

void Training::end_optimizer(Here here) noexcept {
  close(here.thread, optimizer_, Moment());
  closure_apart_ = false;
  step_done_ = true;
  if (announced_ > 0) return;  // no sign of a loop of the program's own
  ++optimizer_steps_;
  ++steps_in_epoch_;
}

// Its end was never announced: the optimizer raised. Only a closure runs a model inside it.
void Training::close_stale_optimizer(ThreadState& thread, const Moment& now) {
  if (!optimizer_ || optimizer_closure_) return;
  close(thread, optimizer_, now);
  if (!closure_apart_) note_failure();  // otherwise it only runs its closure once more
}

}  // namespace sonde::hook
