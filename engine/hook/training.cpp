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

std::uint32_t g_steps_per_epoch = 1000;
Training::StepEnd g_step_end = nullptr;
Training::EpochEnd g_epoch_end = nullptr;
// By number of lane; made when a stack is first heard of, kept for ever.
std::vector<std::unique_ptr<Training>> g_trainings;

}  // namespace

Pass::Pass(Here here, const void* source, std::uint64_t now) noexcept
    : source_(source), made_ns_(now), made_at_(here.thread.lane->next_sequence) {}

// -- state --

std::uint32_t Training::g_session = 1;
constinit thread_local Training* Training::t_last = nullptr;

Training& Training::find(Here here) noexcept {
  const std::uint32_t number = here.stack.number;
  if (number >= g_trainings.size()) g_trainings.resize(number + 1);
  std::unique_ptr<Training>& slot = g_trainings[number];
  if (!slot) slot = std::make_unique<Training>();
  if (!slot->fits(here)) slot->begin_tenancy(here);
  t_last = slot.get();
  return *slot;
}

const Training* Training::on(const Lane& stack) noexcept {
  if (stack.number >= g_trainings.size()) return nullptr;
  const Training* training = g_trainings[stack.number].get();
  const bool current = training != nullptr && training->stack_ == &stack &&
                       training->tenancy_ == stack.tenancy && training->of_this_session();
  return current ? training : nullptr;
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

bool Training::of_this_session() const noexcept { return session_ == g_session; }

void Training::begin_session(std::uint32_t steps_per_epoch) noexcept {
  ++g_session;
  g_steps_per_epoch = std::max<std::uint32_t>(1, steps_per_epoch);
}

void Training::on_step_end(StepEnd callback) noexcept { g_step_end = callback; }

void Training::on_epoch_end(EpochEnd callback) noexcept { g_epoch_end = callback; }

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
  step_index_ = earlier_index_;
  return true;
}

// -- fetching --

void Training::begin_fetch(Here here, Pass& pass, Hint hint) noexcept {
  // A loader that reads from another loader: the outermost is what the program waits for.
  if (fetch_depth_++ > 0) return;
  const Moment now;
  // A trainer's closure may fetch for itself; otherwise nobody fetches inside an optimizer.
  if (!optimizer_.apart) close_stale_optimizers(here.thread, now);
  if (pass.training_ != nullptr && pass.training_ != this) end_pass(&here.thread, pass);
  if (pass.training_ == nullptr) {
    pass.role_ = Pass::Role::kNone;
    begin_pass(here, pass, hint, now);
  } else {
    confirm(here.thread);
    if (pass.role_ == Pass::Role::kOwner && !record::is_open(pass.scope_)) {
      // Closed together with a scope around it: from now on it feeds whatever is there.
      if (!pass.nested_ && !pass.eval_) {
        if (is_epoch(pass)) report_epoch(pass.scope_.sequence, next_epoch_);
        ++next_epoch_;
      }
      std::erase(owners_, &pass);
      pass.role_ = Pass::Role::kMember;
    }
  }
  ++pass.fetches_;
  pass.failed_ = false;
  settled_ = settled_ && last_ == &pass;
  last_ = &pass;
  const std::uint64_t before = step_.sequence;
  if (pass.eval_ && !pass.saw_train_) {
    end_own_step(here.thread, pass, now);
  } else {
    // What makes the epoch, where that is another pass, or an owner's, which this one stands for.
    const Pass* leading = innermost();
    if (leading == nullptr || leading->eval_) leading = &pass;
    final_batch_ = leading->fetches_ == leading->length_;
    rotate_step(here, now);
  }
  pass.fresh_step_ = step_ && step_.sequence != before;
  if (pass.fresh_step_) step_pass_ = &pass;
  record::ScopeStart start;
  start.name = names().data_load;
  pass.load_ = open(here, start, now);
}

void Training::end_fetch(Here here, Pass& pass, Fetched outcome, bool gpu_work) noexcept {
  if (fetch_depth_ == 0 || --fetch_depth_ > 0) return;
  if (pass.training_ != this) return;
  std::uint32_t begun = 0;
  if (!gpu_work && pass.load_) {
    const OpenScope& load = here.stack.stack[pass.load_.slot];
    if ((load.flags.load(std::memory_order_relaxed) & record::kHasGpu) != 0)
      begun = static_cast<std::uint32_t>(load.aux);
  }
  const Moment now = gpu_work ? Moment() : Moment(begun);
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
  earlier_index_ = step_index_;
  step_index_ = start.index;
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
      report_epoch(fallback_epoch_.sequence, next_epoch_);
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

bool Training::ends_fallback() const noexcept {
  return steps_in_epoch_ + std::max<std::uint64_t>(1, last_step_.optimizers()) >= g_steps_per_epoch;
}

void Training::end_fallback(ThreadState& thread, const Moment& now) {
  if (!fallback_epoch_) return;
  report_epoch(fallback_epoch_.sequence, next_epoch_);
  if (record::is_open(fallback_epoch_)) {
    close_step(thread, now);
    close(thread, fallback_epoch_, now);
  }
  fallback_epoch_ = {};
  ++next_epoch_;
}

// -- the end of an epoch --

void Training::end_epoch() noexcept {
  last_step_.end_epoch();
  final_batch_ = final_turn_ = false;
}

void Training::report_epoch(std::uint64_t sequence, std::int64_t index) noexcept {
  if (g_epoch_end != nullptr) g_epoch_end(*this, sequence, index);
  end_epoch();
}

bool Training::is_doubtful(std::uint64_t sequence) noexcept {
  for (const auto& training : g_trainings) {
    if (!training) continue;
    for (const Pass* pass : training->owners_) {
      if (pass->scope_.sequence == sequence) return !is_epoch(*pass);
    }
  }
  return false;
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
  pause_optimizer(here.thread, now);
  if (mode == Mode::kTrain) {
    settle_as_training(here, now);
  } else {
    if (held_ != nullptr && !another_trains) turn_into_validation(here);
    confirm(here.thread);
    note(mode);
  }
  if (!loader_seen_ && mode == Mode::kTrain && !optimizing()) step_without_loader(here, now);
  record::ScopeStart start;
  start.name = names().forward;
  start.static_attrs = mode == Mode::kTrain ? names().train_mode : names().eval_mode;
  return open(here, start, now);
}

ScopeHandle Training::begin_backward(Here here) noexcept {
  const Moment now;
  pause_optimizer(here.thread, now);
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

std::uint64_t Training::begin_optimizer(Here here, bool has_closure) noexcept {
  static std::uint64_t serial = 0;
  const Moment now;
  settle_as_training(here, now);
  if (has_closure && !optimizing() && !loader_seen_) step_without_loader(here, now);
  if (optimizing()) outer_optimizers_.push_back(optimizer_);
  optimizer_ = {.scope = {}, .serial = ++serial, .apart = has_closure && trainers_ > 0};
  if (!optimizer_.apart) open_optimizer(here, now);
  return optimizer_.serial;
}

void Training::open_optimizer(Here here, const Moment& now) {
  record::ScopeStart start;
  start.name = names().optimizer_step;
  optimizer_.scope = open(here, start, now);
}

// It runs its closure once more: that stands beside its spans.
void Training::pause_optimizer(ThreadState& thread, const Moment& now) {
  if (optimizer_.apart) close(thread, optimizer_.scope, now);
}

void Training::drop_optimizer(ThreadState& thread, const Moment& now) {
  close(thread, optimizer_.scope, now);
  optimizer_ = {};
  if (outer_optimizers_.empty()) return;
  optimizer_ = outer_optimizers_.back();
  outer_optimizers_.pop_back();
}

void Training::end_optimizer(Here here, std::uint64_t serial, bool completed) noexcept {
  const auto known = [&](const Optimizer& one) { return one.serial == serial; };
  if (!known(optimizer_) && std::none_of(outer_optimizers_.begin(), outer_optimizers_.end(), known))
    return;  // a fetch has shown that it is over
  const Moment now;
  while (!known(optimizer_)) drop_optimizer(here.thread, now);
  drop_optimizer(here.thread, now);
  if (!completed) return note_failure();
  if (optimizing()) return;  // one that is part of another
  step_done_ = true;
  if (announced_ > 0) return;  // no sign of a loop of the program's own
  ++optimizer_steps_;
  ++steps_in_epoch_;
}

// Nobody fetches in there: their end was never announced, although they are over.
void Training::close_stale_optimizers(ThreadState& thread, const Moment& now) {
  if (!optimizing()) return;
  while (optimizing()) drop_optimizer(thread, now);
  note_failure();
}

}  // namespace sonde::hook
