#include "engine/hook/training.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/base/placement.h"
#include "engine/hook/names.h"

namespace sonde::hook {

using record::Lane;
using record::ThreadState;

namespace {

Training::StepEnd g_step_end = nullptr;
Training::EpochEnd g_epoch_end = nullptr;
// By number of lane; made when a stack is first heard of, kept for ever.
std::vector<std::unique_ptr<Training>> g_trainings;

}  // namespace

// -- state --

std::int64_t Seen::g_steps_per_epoch = Training::kStepsPerEpoch;
constinit thread_local Training* Training::t_last = nullptr;

Training& Training::find(Here here) noexcept {
  const std::uint32_t number = record::number_of(here.stack);
  if (number >= g_trainings.size()) g_trainings.resize(number + 1);
  std::unique_ptr<Training>& slot = g_trainings[number];
  if (!slot) slot = std::make_unique<Training>();
  if (!slot->fits(here)) slot->begin_tenancy(here);
  t_last = slot.get();
  return *slot;
}

const Training* Training::on(const Lane& stack) noexcept {
  if (record::number_of(stack) >= g_trainings.size()) return nullptr;
  const Training* training = g_trainings[record::number_of(stack)].get();
  const bool current = training != nullptr && training->stack_ == &stack &&
                       training->tenancy_ == record::tenancy_of(stack) &&
                       training->of_this_session();
  return current ? training : nullptr;
}

void Training::begin_tenancy(Here here) noexcept {
  intern_names();
  for (Pass* pass : passes_.known) pass->training = nullptr;
  settle();
  *this = Training();
  stack_ = &here.stack;
  tenancy_ = record::tenancy_of(here.stack);
  generation_ = here.thread.generation;
}

void Training::begin_session(std::uint32_t steps_per_epoch) noexcept {
  g_taken = g_skipped = 0;
  set_steps_per_epoch(steps_per_epoch);
}

void Training::set_steps_per_epoch(std::uint32_t steps) noexcept {
  g_steps_per_epoch = std::max<std::uint32_t>(1, steps);
}

void Training::on_step_end(StepEnd callback) noexcept { g_step_end = callback; }

void Training::on_epoch_end(EpochEnd callback) noexcept { g_epoch_end = callback; }

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

void Training::conclude_all(ThreadState& thread) noexcept {
  for (const auto& training : g_trainings) {
    if (!training || training->generation_ != thread.generation) continue;
    const Here there{thread, *training->stack_};
    if (training->of_this_session() && record::tenancy_of(there.stack) == training->tenancy_ &&
        training->claims_.announced == 0)
      training->end_loop(there);
    training->settle();
  }
}

void Training::finish_all(ThreadState& thread) noexcept {
  for (const auto& training : g_trainings) {
    if (training && training->generation_ == thread.generation && training->of_this_session())
      training->finish_everything({thread, *training->stack_});
  }
}

// -- the end of an epoch --

void Training::end_epoch() noexcept {
  last_step_.end_epoch();
  epochs_.final_batch = epochs_.final_turn = false;
}

void Transitions::report_epoch(std::uint64_t sequence) noexcept {
  const std::int64_t index = epochs_.next++;
  // Every one of these is a Training's.
  auto& training = static_cast<Training&>(*this);
  if (g_epoch_end != nullptr) g_epoch_end(training, sequence, index);
  training.end_epoch();
}

bool Training::is_doubtful(std::uint64_t sequence) noexcept {
  for (const auto& training : g_trainings) {
    if (!training) continue;
    for (const Pass* pass : training->passes_.owners) {
      if (pass->scope.sequence == sequence) return !pass->is_epoch();
    }
  }
  return false;
}

// -- a step --

void Transitions::close_step(ThreadState& thread, const Moment& now) {
  if (g_step_end != nullptr && now.event_number() != 0 && step_.is_open())
    g_step_end(now.event_number());
  close_span(thread, step_.scope, now);
}

}  // namespace sonde::hook
