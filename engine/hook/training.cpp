#include "engine/hook/training.h"

#include <algorithm>
#include <memory>

#include "engine/base/placement.h"
#include "engine/hook/level.h"
#include "engine/hook/names.h"

namespace sonde::hook {

using record::Lane;
using record::OpenScope;
using record::ScopeHandle;
using record::ThreadState;

namespace {

std::uint32_t g_steps_per_epoch = Training::kStepsPerEpoch;
Training::StepEnd g_step_end = nullptr;
Training::EpochEnd g_epoch_end = nullptr;
// By number of lane; made when a stack is first heard of, kept for ever.
std::vector<std::unique_ptr<Training>> g_trainings;

}  // namespace

// -- state --

SONDE_HOT_DATA std::uint32_t Training::g_session = 1;
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
  settle();
  *this = Training();
  stack_ = &here.stack;
  tenancy_ = here.stack.tenancy;
  session_ = g_session;
  generation_ = here.thread.generation;
}

bool Training::of_this_session() const noexcept { return session_ == g_session; }

void Training::begin_session(std::uint32_t steps_per_epoch) noexcept {
  ++g_session;
  g_taken = g_skipped = 0;
  set_steps_per_epoch(steps_per_epoch);
}

void Training::set_steps_per_epoch(std::uint32_t steps) noexcept {
  g_steps_per_epoch = std::max<std::uint32_t>(1, steps);
}

void Training::on_step_end(StepEnd callback) noexcept { g_step_end = callback; }

void Training::on_epoch_end(EpochEnd callback) noexcept { g_epoch_end = callback; }

std::int64_t Training::steps_per_epoch() noexcept { return g_steps_per_epoch; }

void Training::settle_all(ThreadState& thread) noexcept {
  for (const auto& training : g_trainings) {
    if (training && training->generation_ == thread.generation) training->settle();
  }
}

void Training::forget_optimizer(const void* optimizer) noexcept {
  for (const auto& training : g_trainings) {
    if (training) training->cycle_.forget(optimizer);
  }
}

void Training::report_closed() noexcept {
  for (const auto& training : g_trainings) {
    if (training && training->of_this_session()) training->drop_closed();
  }
}

// What we had opened inside of another scope was closed with it. `by_program`: that was none of
// ours.
void Training::drop_closed(bool by_program) noexcept {
  if (fallback_epoch_ && !record::is_open(fallback_epoch_)) {
    // Around every single iteration, that is no epoch.
    if (next_step_ <= 1 && fallback_parent_ != full_parent_)
      short_depth_ = std::min(short_depth_, fallback_epoch_.slot);
    report_epoch(fallback_epoch_.sequence, next_epoch_++);
    fallback_epoch_ = {};
    cycle_.reset();
  }
  std::vector<Pass*> over;
  std::erase_if(owners_, [&](Pass* pass) {
    if (record::is_open(pass->scope_)) return false;
    if (is_epoch(*pass)) {
      report_epoch(pass->scope_.sequence, next_epoch_++);
      cycle_.reset();
    }
    plain_ = false;
    pass->role_ = Pass::Role::kMember;  // from now on it feeds whatever is there
    pass->orphan_ = by_program;
    if (pass->drained_) over.push_back(pass);
    return true;
  });
  for (Pass* pass : over) forget(*pass);
}

void Training::conclude_all(ThreadState& thread) noexcept {
  for (const auto& training : g_trainings) {
    if (!training || training->generation_ != thread.generation) continue;
    const Here there{thread, *training->stack_};
    if (training->of_this_session() && there.stack.tenancy == training->tenancy_ &&
        training->announced_ == 0)
      training->end_loop(there);
    training->settle();
  }
}

// The session ends. Of a loop without a loader, or of one whose iterator lives, nobody has said
// that it is over: it ended with the last thing that is known of it. What was in the middle of
// something, or what an exception has passed through, is left to the end of the session.
void Training::end_loop(Here here) noexcept {
  const Moment end = last_known(here);
  conclude(here, end);
  settle();
  const auto stands = [](const ScopeHandle& scope) {
    if (!record::is_innermost(scope)) return false;
    const std::uint32_t attrs = scope.stack->stack[scope.slot].static_attrs;
    return record::name_text(attrs).find("\"exception\":") == std::string_view::npos;
  };
  if (record::is_open(look_) && stands(look_)) close_look(here, end);
  const bool unused = step_pass_ != nullptr && step_pass_->drained_ && !step_pass_->ever_used_;
  if (trainers_ > 0 || claims_ > 0) return;
  if (step_open() && !((done_ || unused) && stands(step_))) return;
  if (step_open()) close_step(here.thread, end);
  for (Pass* pass = innermost(); pass != nullptr && stands(pass->scope_); pass = innermost())
    finish(here.thread, *pass, end);
  if (record::is_open(fallback_epoch_) && stands(fallback_epoch_)) end_fallback(here.thread, end);
}

// When something was last recorded here, as far as that can be told.
Moment Training::last_known(Here here) const noexcept {
  const std::uint64_t newest = here.thread.lane == stack_ ? record::newest_ns(*stack_) : 0;
  if (newest == 0) return {};
  const std::uint32_t depth = stack_->depth.load(std::memory_order_relaxed);
  const std::uint64_t begun = depth > 0 ? stack_->stack[depth - 1].start_ns : 0;
  return Moment::at(std::max({newest, last_ns_, done_ns_, begun}));
}

void Training::finish_all(ThreadState& thread) noexcept {
  for (const auto& training : g_trainings) {
    if (training && training->generation_ == thread.generation && training->of_this_session())
      training->finish_everything({thread, *training->stack_});
  }
}

// In reverse order of their opening; what the program has opened inside stays.
void Training::finish_everything(Here here) noexcept {
  if (here.stack.tenancy != tenancy_) return settle();
  const Moment now;
  begin_event(here);
  while (optimizing()) drop_optimizer(here.thread, now);
  conclude(here, now);
  settle();
  close_look(here, now);
  while (Pass* pass = innermost()) finish(here.thread, *pass, now);
  if (step_open()) close_step(here.thread, now);
  end_fallback(here.thread, now);
}

// -- the stack --

bool Training::taken(const Lane& stack, Level level) const noexcept {
  if (announced_ > 0 || owned(stack, level)) return true;
  if (level == Level::kEpoch) return trainers_ > 0;
  return level == Level::kStep &&
         (claims_ > 0 || (trainers_ > 0 && open_level(stack, names().epoch) == 0));
}

bool Training::opened(std::uint64_t sequence) const noexcept {
  return sequence == step_.sequence || sequence == fallback_epoch_.sequence ||
         std::ranges::any_of(owners_,
                             [&](const Pass* pass) { return pass->scope_.sequence == sequence; });
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
        if (scope.name == name.epoch && !opened(scope.sequence)) return true;
        break;
      case Level::kStep:
        if ((flags & record::kOwnsSteps) != 0) return true;
        if ((scope.name == name.step || scope.name == name.batch) &&
            scope.sequence != step_.sequence)
          return true;
        break;
      case Level::kValidation:
        if ((flags & record::kOwnsValidation) != 0) return true;
        if (scope.name == name.validation && scope.sequence != look_.sequence) return true;
        break;
    }
  }
  return false;
}

inline void Training::end_on_gpu(const ScopeHandle& scope, const Moment& now) noexcept {
  OpenScope& slot = scope.stack->stack[scope.slot];
  if ((slot.flags.load(std::memory_order_relaxed) & record::kHasGpu) != 0)
    slot.aux |= std::uint64_t{now.event()} << 32;
}

ScopeHandle Training::open(Here here, const Opening& what, const Moment& now) {
  const std::uint32_t event = now.event();
  const std::uint8_t gpu = event != 0 ? record::kHasGpu : 0;
  const ScopeHandle scope =
      record::open_plain(here.thread, here.stack,
                         {.name = what.name,
                          .static_attrs = what.attrs,
                          .index = what.index,
                          .flags = static_cast<std::uint8_t>(what.flags | gpu),
                          .aux = event,
                          .start_ns = now.ns});
  if (!scope) [[unlikely]]
    probe::gpu_release(event);
  return scope;
}

void Training::close(ThreadState& thread, ScopeHandle& scope, const Moment& now,
                     std::string_view error) {
  if (!scope) return;
  if (!error.empty() || !record::is_plain(thread, scope)) [[unlikely]] {
    close_other(thread, scope, now, error);
  } else {
    end_on_gpu(scope, now);
    record::close_plain(thread, scope, record::ClosedBy::kSelf, now.ns,
                        record::Certainty::kCertain);
  }
  scope = {};
}

void Training::close_other(ThreadState& thread, const ScopeHandle& scope, const Moment& now,
                           std::string_view error) {
  if (!record::is_open(scope)) return;
  end_on_gpu(scope, now);
  record::close_scope(thread, scope, {.replace_attrs = !error.empty(), .attrs = error}, now.ns);
}

// The outermost of those that are open inside of it; nullptr: there is none.
const OpenScope* Training::next_inside(const ScopeHandle& scope) noexcept {
  const Lane& stack = *scope.stack;
  for (std::uint32_t slot = scope.slot + 1; slot < stack.depth.load(std::memory_order_relaxed);
       ++slot) {
    if ((stack.stack[slot].flags.load(std::memory_order_relaxed) & record::kSlotClosed) == 0)
      return &stack.stack[slot];
  }
  return nullptr;
}

// What the program has opened inside goes on.
void Training::close_around(ThreadState& thread, ScopeHandle& scope, const Moment& now) {
  if (!record::is_open(scope) || record::is_innermost(scope)) return close(thread, scope, now);
  end_on_gpu(scope, now);
  // That lies beside it from now on, not partly in it.
  const OpenScope* next = next_inside(scope);
  record::close_beneath(thread, scope, next != nullptr ? std::min(now.ns, next->start_ns) : now.ns);
  scope = {};
}

// Ends it, and begins another one in its place, below what the program has opened inside.
void Training::renew(ThreadState& thread, ScopeHandle& scope, std::int64_t index, const Moment& end,
                     const Moment& start) {
  end_on_gpu(scope, end);
  scope = record::renew_beneath(
      thread, scope,
      {.index = index, .end_ns = end.ns, .start_ns = start.ns, .aux = start.event()});
}

// As if it had never been opened. Only for the innermost.
bool Training::cancel(ScopeHandle& scope) {
  if (!scope) return true;
  if (has_children(scope.sequence)) return false;
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

// Is a scope of the program's open inside, directly?
bool Training::holds_program(const ScopeHandle& scope) const noexcept {
  const OpenScope* inside = record::is_open(scope) ? next_inside(scope) : nullptr;
  if (inside == nullptr) return false;
  const std::uint64_t next = inside->sequence;
  if (opened(next) || next == look_.sequence || next == running_.sequence) return false;
  const auto steps = [&](const Optimizer& one) { return one.scope.sequence == next; };
  const auto fetches = [&](const Pass* pass) { return pass->load_.sequence == next; };
  return !steps(optimizer_) && std::ranges::none_of(outer_optimizers_, steps) &&
         std::ranges::none_of(known_, fetches);
}

// Ends the step; what the program has opened inside goes on.
void Training::close_step_around(ThreadState& thread, const Moment& now) {
  if (holds_program(step_)) {
    close_around(thread, step_, now);
  } else {
    close_step(thread, now);
  }
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

// -- what is not certain --

void Training::begin_event(Here here) noexcept {
  const std::uint32_t depth = here.stack.depth.load(std::memory_order_relaxed);
  plain_ = false;
  if (depth > 0 && (here.stack.stack[depth - 1].flags.load(std::memory_order_relaxed) &
                    record::kSlotClosed) != 0) [[unlikely]]
    record::detail::pop_closed(here.stack);
  if (here.thread.lane->next_sequence != expected_ ||
      here.stack.depth.load(std::memory_order_relaxed) != expected_depth_) [[unlikely]]
    look_around(here);
}

// Somebody else has opened or closed scopes, or recorded something, since the last event.
void Training::look_around(Here here) noexcept {
  if (here.thread.lane->next_sequence != expected_) {
    touched_ = true;
    if (scopes_opened(here.thread) != expected_scopes_) leaves_.touch();
  }
  if ((fallback_epoch_ && !record::is_open(fallback_epoch_)) ||
      (!owners_.empty() && !record::is_open(owners_.back()->scope_)))
    drop_closed();
  // Nor can anything be moved out of a scope that is over.
  if (!leaves_.empty() && leaves_.parent() != record::current_parent(here.stack) &&
      !on_stack(here.stack, leaves_.parent()))
    settle();
}

void Training::end_event(Here here) noexcept {
  expected_ = here.thread.lane->next_sequence;
  expected_scopes_ = scopes_opened(here.thread);
  expected_depth_ = here.stack.depth.load(std::memory_order_relaxed);
}

std::uint64_t Training::scopes_opened(const ThreadState& thread) noexcept {
  return thread.lane->next_sequence - thread.marks;
}

// Can the leaves be moved? A mark between them stays where it is.
bool Training::movable(const ThreadState& thread) const noexcept {
  return leaves_.behind_stuck() == 0 && scopes_opened(thread) == expected_scopes_;
}

bool Training::on_stack(const Lane& stack, std::uint64_t sequence) noexcept {
  for (std::uint32_t slot = stack.depth.load(std::memory_order_relaxed); slot-- > 0;) {
    const OpenScope& scope = stack.stack[slot];
    if (scope.sequence == sequence)
      return (scope.flags.load(std::memory_order_relaxed) & record::kSlotClosed) == 0;
  }
  return false;
}

bool Training::untouched(const ThreadState& thread) const noexcept {
  return !touched_ && thread.lane->next_sequence == expected_;
}

void Training::settle_leaves() noexcept {
  leaves_.settle([&](std::uint64_t parent) { note_child(parent); });
}

void Training::note_other_child(std::uint64_t parent) noexcept {
  if (!has_children(parent)) parents_[parents_at_++ % parents_.size()] = parent;
}

bool Training::has_children(std::uint64_t sequence) const noexcept {
  return std::find(parents_.begin(), parents_.end(), sequence) != parents_.end();
}

void Training::end_leaf(Here here, ScopeHandle& scope, Leaf::Kind kind, const Moment& now) {
  last_ns_ = now.ns;
  if (pend_ && record::is_open(scope)) return keep_leaf(here, scope, kind, now);
  if (scope) note_child(scope.stack->stack[scope.slot].parent);
  close(here.thread, scope, now);
}

// It is not certain yet where it belongs.
void Training::keep_leaf(Here here, ScopeHandle& scope, Leaf::Kind kind, const Moment& now) {
  OpenScope& slot = scope.stack->stack[scope.slot];
  Leaf leaf{.sequence = scope.sequence,
            .start_ns = slot.start_ns,
            .module = kind == Leaf::Kind::kForward ? module_ : nullptr,
            .kind = kind,
            .evaluates = kind == Leaf::Kind::kForward && evaluates_,
            .sure = kind == Leaf::Kind::kForward && sure_,
            .foreign = kind == Leaf::Kind::kForward && foreign_,
            .watched = kind == Leaf::Kind::kForward && watch_};
  if ((slot.flags.load(std::memory_order_relaxed) & record::kHasGpu) != 0) {
    leaf.start_event = static_cast<std::uint32_t>(slot.aux);
    slot.aux |= std::uint64_t{now.event()} << 32;
  }
  leaf.record = record::close_provisionally(here.thread, scope, now.ns);
  scope = {};
  if (leaf.record != nullptr) {
    if (leaves_.empty()) touched_ = false;
    if (leaves_.full()) {  // the oldest stays where it is
      note_child(leaves_.parent());
      if (record::is_open(look_)) ++look_spans_;
    }
    leaves_.add(leaf);
  } else {
    touched_ = true;
  }
}

}  // namespace sonde::hook
