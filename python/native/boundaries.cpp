#include "python/native/boundaries.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "engine/base/clock.h"
#include "engine/base/deadline.h"
#include "engine/base/level_names.h"
#include "engine/base/placement.h"
#include "engine/record/names.h"
#include "engine/record/peek.h"
#include "engine/record/stack.h"
#include "python/native/callbacks.h"

namespace sonde::native {

using hook::Here;
using hook::Training;

SONDE_HOT_DATA constinit Boundaries::Flags Boundaries::flags_;
Boundaries* const Boundaries::one_ = new Boundaries;

namespace {

std::int64_t current_step() {
  record::ThreadState* thread = record::this_thread();
  record::Lane* stack = thread != nullptr ? current_stack(*thread) : nullptr;
  return stack != nullptr ? Training::of({*thread, *stack}).step_index() : -1;
}

// A dict from id() of the optimizer to its count.
Ref steps_by_optimizer(const EpochEnd& epoch) {
  Ref steps(PyDict_New());
  for (const auto& [optimizer, count] : epoch.steps) {
    const Ref key(PyLong_FromVoidPtr(const_cast<void*>(optimizer)));
    const Ref value(PyLong_FromUnsignedLongLong(count));
    if (!steps || !key || !value || PyDict_SetItem(steps.get(), key.get(), value.get()) != 0)
      return {};
  }
  return steps;
}

}  // namespace

void Boundaries::listen(PyObject* on_epoch, PyObject* on_gradients) noexcept {
  const bool wanted = on_epoch != nullptr;
  const Ref old_epoch(std::exchange(on_epoch_, Py_XNewRef(on_epoch)));
  const Ref old_gradients(std::exchange(on_gradients_, Py_XNewRef(on_gradients)));
  flags_.snapshots_wanted = wanted;
  ++flags_.snapshot_round;
  flags_.epoch_name = wanted ? record::intern(base::kEpoch) : kNoName;
  Training::on_epoch_end(wanted ? note_end : nullptr);
  none_told_ = false;
  due_.clear();
  flags_.epoch_ends_due = false;
  told_.fill(0);
}

bool Boundaries::first_time(std::uint64_t sequence) noexcept {
  for (const std::uint64_t told : told_) {
    if (told == sequence) return false;
  }
  told_[told_at_++ % told_.size()] = sequence;
  return true;
}

void Boundaries::tell(const EpochEnd& epoch) noexcept {
  none_told_ = true;
  if (on_epoch_ == nullptr || !first_time(epoch.sequence)) return;
  const Ref index(number_or_none(epoch.index, record::kNoIndex));
  const Ref step(number_or_none(current_step(), -1));
  const Ref steps = steps_by_optimizer(epoch);
  if (index && step && steps) {
    call(on_epoch_, "KOOKO", static_cast<unsigned long long>(epoch.sequence), index.get(),
         step.get(), static_cast<unsigned long long>(epoch.stack), steps.get());
  } else {
    PyErr_Clear();
  }
}

// Called by engine/hook while its state is half changed, so it only takes note.
void Boundaries::note_end(const hook::EndedEpoch& epoch) noexcept {
  instance().due_.push_back(
      {epoch.sequence, epoch.index, stack_token(epoch.stack), epoch.steps.counts()});
  flags_.epoch_ends_due = true;
}

void Boundaries::tell_due() noexcept {
  const KeepError keep;
  flags_.epoch_ends_due = false;
  const std::vector<EpochEnd> due = std::exchange(due_, {});
  for (const EpochEnd& epoch : due) tell(epoch);
}

EpochEnd Boundaries::innermost_epoch(const record::Lane& stack) {
  const record::ScopeView scope = record::innermost_where(stack, [](record::ScopeView open) {
    return open.name() == flags_.epoch_name && !Training::is_doubtful(open.sequence());
  });
  if (!scope) return {};
  return {.sequence = scope.sequence(),
          .index = scope.index(),
          .stack = stack_token(stack),
          .steps = {}};
}

void Boundaries::tell_closed(std::uint64_t sequence, std::int64_t index) noexcept {
  EpochEnd epoch{.sequence = sequence, .index = index, .stack = 0, .steps = {}};
  with_training([&](Training& training, Here here) {
    epoch.stack = stack_token(here.stack);
    if (snapshots_wanted()) epoch.steps = training.steps().counts();
    training.end_epoch();
  });
  const KeepError keep;
  tell(epoch);
}

void Boundaries::end_innermost() noexcept {
  if (!snapshots_wanted()) return;
  EpochEnd epoch;
  with_training([&](Training& training, Here here) {
    epoch = innermost_epoch(here.stack);
    epoch.steps = training.steps().counts();
    training.end_epoch();
  });
  if (epoch.sequence != 0) tell(epoch);
}

void Boundaries::end_all() noexcept {
  Training::report_closed();
  tell_epoch_ends();
  std::vector<EpochEnd> open;
  if (!snapshots_wanted()) return;
  record::see_open_scopes([&](const record::PeekedScope& scope) {
    if (scope.stack() == nullptr || scope.name() != flags_.epoch_name ||
        Training::is_doubtful(scope.sequence()))
      return;
    EpochEnd epoch{.sequence = scope.sequence(),
                   .index = scope.index(),
                   .stack = stack_token(*scope.stack()),
                   .steps = {}};
    if (const Training* training = Training::on(*scope.stack()))
      epoch.steps = training->steps().counts();
    open.push_back(std::move(epoch));
  });
  for (const EpochEnd& epoch : open) tell(epoch);
}

void Boundaries::take_gradients(PyObject* optimizer) noexcept {
  if (on_gradients_ == nullptr) return;
  const KeepError keep;
  std::uint64_t number = 0;
  bool last = false;
  EpochEnd epoch;
  with_training([&](Training& training, Here here) {
    number = training.steps().steps(optimizer);
    last = training.steps().is_likely_last(optimizer);
    epoch = innermost_epoch(here.stack);
  });
  if (epoch.sequence == 0) return;  // they belong to no epoch
  const Ref index(number_or_none(epoch.index, record::kNoIndex));
  if (!index) return PyErr_Clear();
  const std::uint64_t begin = base::monotonic_ns();
  device_ns_ = 0;
  call(on_gradients_, "OKKOKO", optimizer, static_cast<unsigned long long>(number),
       static_cast<unsigned long long>(epoch.sequence), index.get(),
       static_cast<unsigned long long>(epoch.stack), last ? Py_True : Py_False);
  const std::uint64_t end = base::monotonic_ns() + device_ns_;
  with_training(
      [&](Training& training, Here) { training.steps().measured(optimizer, begin, end); });
}

int Boundaries::tell_last(void*) {
  Boundaries& self = instance();
  if (self.last_begun_.exchange(true)) return 0;
  const KeepError keep;
  self.end_all();
  self.last_done_.store(true);
  return 0;
}

bool Boundaries::await_last(std::uint64_t patience_ns, std::uint64_t deadline_ns) const {
  const std::uint64_t until = std::min(base::deadline_after(patience_ns), deadline_ns);
  while (!last_done_.load() && base::monotonic_ns() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return last_done_.load();
}

void Boundaries::end_all_before_death(std::uint64_t deadline_ns) noexcept {
  if (!snapshots_wanted()) return;
  try {
    constexpr std::uint64_t kForMainNs = 300'000'000, kForAnyNs = 2'000'000'000;
    if (Py_AddPendingCall(tell_last, nullptr) == 0 && await_last(kForMainNs, deadline_ns)) return;
    // The main thread is in a long call. Another thread waits for the GIL, and may never get it.
    std::thread([] {
      const PyGILState_STATE state = PyGILState_Ensure();
      tell_last(nullptr);
      PyGILState_Release(state);
    }).detach();
    await_last(kForAnyNs, deadline_ns);
  } catch (...) {
    // No thread could be started. The spans are written without the last snapshot.
  }
}

}  // namespace sonde::native
