#include "engine/hook/training.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/placement.h"
#include "engine/hook/level.h"
#include "engine/hook/listeners.h"
#include "engine/hook/moment.h"
#include "engine/hook/moves.h"
#include "engine/hook/names.h"
#include "engine/hook/pass.h"
#include "engine/hook/seen.h"
#include "engine/record/lane.h"
#include "engine/record/stack.h"

namespace sonde::hook {

using record::Lane;
using record::ThreadState;

namespace {

// One Training per stack, by the number of its lane: made at the first event there, never freed.
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
  const bool current = training != nullptr && training->seen_.stack == &stack &&
                       training->seen_.of_this_tenancy() && training->seen_.of_this_session();
  return current ? training : nullptr;
}

void Training::begin_tenancy(Here here) noexcept {
  intern_names();
  for (Pass* pass : seen_.passes.known) pass->seen = nullptr;
  settle(seen_);
  seen_ = Seen();
  seen_.stack = &here.stack;
  seen_.tenancy = record::tenancy_of(here.stack);
  seen_.generation = here.thread.generation;
}

void Training::begin_session(std::uint32_t steps_per_epoch) noexcept {
  g_taken = g_skipped = 0;
  set_steps_per_epoch(steps_per_epoch);
}

void Training::set_steps_per_epoch(std::uint32_t steps) noexcept {
  Seen::g_steps_per_epoch = std::max<std::uint32_t>(1, steps);
}

void Training::on_step_end(StepEnd callback) noexcept { g_listeners.step_end = callback; }

void Training::on_epoch_end(EpochEnd callback) noexcept { g_listeners.epoch_end = callback; }

void Training::settle_all(ThreadState& thread) noexcept {
  for (const auto& training : g_trainings) {
    if (training && training->seen_.generation == thread.generation) settle(training->seen_);
  }
}

void Training::forget_optimizer(const void* optimizer) noexcept {
  for (const auto& training : g_trainings) {
    if (training) training->seen_.cycle.forget(optimizer);
  }
}

bool Training::only_fetches_for_another() const noexcept {
  const Claims& own = seen_.claims;
  if (own.announced > 0 || own.trainers > 0 || seen_.learnt.knows_training) return false;
  return std::ranges::any_of(g_trainings, [this](const auto& training) {
    if (!training || training.get() == this || !training->seen_.of_this_session()) return false;
    const Claims& claims = training->seen_.claims;
    return claims.announced > 0 || claims.trainers > 0;
  });
}

void Training::report_closed() noexcept {
  for (const auto& training : g_trainings) {
    if (training && training->seen_.of_this_session()) drop_closed(training->seen_);
  }
}

void Training::conclude_all(ThreadState& thread) noexcept {
  for (const auto& training : g_trainings) {
    if (training && training->seen_.generation == thread.generation)
      end_loop(training->seen_, {thread, *training->seen_.stack});
  }
}

void Training::finish_all(ThreadState& thread) noexcept {
  for (const auto& training : g_trainings) {
    if (training && training->seen_.is_current(thread))
      finish_everything(training->seen_, {thread, *training->seen_.stack});
  }
}

// -- the end of an epoch --

void Training::end_epoch() noexcept { seen_.end_epoch(); }

bool Training::is_doubtful(std::uint64_t sequence) noexcept {
  for (const auto& training : g_trainings) {
    if (!training) continue;
    for (const Pass* pass : training->seen_.passes.owners) {
      if (pass->scope.sequence == sequence) return !pass->is_epoch();
    }
  }
  return false;
}

}  // namespace sonde::hook
