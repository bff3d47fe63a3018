#include "python/native/boundaries.h"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/placement.h"
#include "engine/hook/level.h"
#include "engine/record/journal.h"
#include "engine/record/names.h"
#include "python/native/callbacks.h"
#include "python/native/training_call.h"

namespace sonde::native {

namespace detail {
SONDE_HOT_DATA constinit bool g_snapshots_wanted = false;
SONDE_HOT_DATA constinit bool g_epoch_ends_due = false;
constinit std::uint32_t g_epoch_name = kNoName;
SONDE_HOT_DATA constinit std::uint32_t g_snapshot_round = 0;
}  // namespace detail

namespace {

using hook::Here;
using hook::Training;

PyObject* g_on_epoch = nullptr;      // see watch_epochs in python/sonde/_core.pyi
PyObject* g_on_gradients = nullptr;  // likewise

struct EpochEnd {
  std::uint64_t sequence = 0;
  std::int64_t index = record::kNoIndex;
  std::uint64_t stack = 0;                                   // see stack_token
  std::vector<std::pair<const void*, std::uint64_t>> steps;  // of each optimizer
};
std::vector<EpochEnd> g_due;

// What the device is estimated to work for the gradients that are being measured.
std::uint64_t g_device_ns = 0;

// The epochs that were told last: one that a trainer has announced is not told again at its end.
std::array<std::uint64_t, 16> g_told;
std::size_t g_told_at = 0;

// Of a thread or task. Unlike the number of a thread it is never given to another.
std::uint64_t stack_token(const record::Lane& stack) {
  return stack.tenancy << 24 | (stack.number & 0xFFFFFF);
}

bool first_time(std::uint64_t sequence) {
  for (const std::uint64_t told : g_told) {
    if (told == sequence) return false;
  }
  g_told[g_told_at++ % g_told.size()] = sequence;
  return true;
}

Ref number_or_none(std::int64_t number) {
  return Ref(number < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(number));
}

std::int64_t current_step() {
  record::ThreadState* thread = record::this_thread();
  record::Lane* stack = thread != nullptr ? current_stack(*thread) : nullptr;
  return stack != nullptr ? Training::of({*thread, *stack}).step_index() : -1;
}

// By id() of the optimizer.
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

// Without any model there is nothing to take; that is told once, and then not asked any more.
bool g_none_told = false;

void tell(const EpochEnd& epoch) {
  g_none_told = true;
  if (g_on_epoch == nullptr || !first_time(epoch.sequence)) return;
  const Ref index(number_or_none(epoch.index)), step(number_or_none(current_step()));
  const Ref steps = steps_by_optimizer(epoch);
  if (index && step && steps) {
    call(g_on_epoch, "KOOKO", static_cast<unsigned long long>(epoch.sequence), index.get(),
         step.get(), static_cast<unsigned long long>(epoch.stack), steps.get());
  } else {
    PyErr_Clear();
  }
}

void note_epoch_end(const Training& training, std::uint64_t sequence, std::int64_t index) noexcept {
  g_due.push_back({sequence, index, stack_token(*training.stack()), training.steps().counts()});
  detail::g_epoch_ends_due = true;
}

// The epoch scope in this slot, if there is one; else its sequence is 0.
EpochEnd epoch_in(const record::Lane& stack, std::uint32_t slot) {
  const record::OpenScope& scope = stack.stack[slot];
  const std::uint8_t flags = scope.flags.load(std::memory_order_acquire);
  if (scope.name != detail::g_epoch_name || (flags & record::kSlotClosed) != 0 ||
      Training::is_doubtful(scope.sequence))
    return {};
  return {scope.sequence, (flags & record::kHasIndex) != 0 ? scope.index : record::kNoIndex,
          stack_token(stack)};
}

EpochEnd innermost_epoch(const record::Lane& stack) {
  for (std::uint32_t slot = stack.depth.load(std::memory_order_relaxed); slot-- > 0;) {
    EpochEnd epoch = epoch_in(stack, slot);
    if (epoch.sequence != 0) return epoch;
  }
  return {};
}

// watch_epochs(on_epoch, on_gradients, on_trained, on_gone): all None, and nobody is told anything.
PyObject* watch_epochs(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 4) {
    PyErr_SetString(PyExc_TypeError, "watch_epochs(on_epoch, on_gradients, on_trained, on_gone)");
    return nullptr;
  }
  const bool wanted = args[0] != Py_None;
  const Ref old_epoch(g_on_epoch), old_gradients(g_on_gradients);
  g_on_epoch = wanted ? Py_NewRef(args[0]) : nullptr;
  g_on_gradients = wanted ? Py_NewRef(args[1]) : nullptr;
  detail::g_snapshots_wanted = wanted;
  ++detail::g_snapshot_round;
  detail::g_epoch_name = wanted ? record::intern("epoch") : detail::kNoName;
  Training::on_epoch_end(wanted ? note_epoch_end : nullptr);
  watch_seen(wanted ? args[2] : nullptr, wanted ? args[3] : nullptr);
  g_none_told = false;
  g_due.clear();
  detail::g_epoch_ends_due = false;
  g_told.fill(0);
  Py_RETURN_NONE;
}

// The innermost open epoch of this stack ends for a snapshot's purposes, whatever is still to come.
PyObject* epoch_over(PyObject*, PyObject*) {
  if (!snapshots_wanted()) Py_RETURN_NONE;
  EpochEnd epoch;
  with_training([&](Training& training, Here here) {
    epoch = innermost_epoch(here.stack);
    epoch.steps = training.steps().counts();
    training.end_epoch();
  });
  if (epoch.sequence != 0) tell(epoch);
  Py_RETURN_NONE;
}

void tell_open_epochs() {
  Training::report_closed();
  sonde::native::tell_epoch_ends();
  record::Journal& journal = record::Journal::instance();
  std::vector<EpochEnd> open;
  for (std::uint32_t i = 0; snapshots_wanted() && i < journal.lane_count(); ++i) {
    record::Lane& stack = journal.lane(i);
    if (stack.state.load(std::memory_order_acquire) == record::LaneState::kFree) continue;
    for (std::uint32_t slot = 0; slot < stack.depth.load(std::memory_order_acquire); ++slot) {
      EpochEnd epoch = epoch_in(stack, slot);
      if (epoch.sequence == 0) continue;
      if (const Training* training = Training::on(stack)) epoch.steps = training->steps().counts();
      open.push_back(std::move(epoch));
    }
  }
  for (const EpochEnd& epoch : open) tell(epoch);
}

// Every epoch that is open, on whatever thread: the session ends.
PyObject* end_open_epochs(PyObject*, PyObject*) {
  tell_open_epochs();
  Py_RETURN_NONE;
}

// Told once, by the main thread between two of its instructions, or else by whoever gets the GIL.
std::atomic<bool> g_last_told{false}, g_last_done{false};

int tell_last(void*) {
  if (g_last_told.exchange(true)) return 0;
  const KeepError keep;
  tell_open_epochs();
  g_last_done.store(true);
  return 0;
}

bool await_last(int milliseconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (!g_last_done.load() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return g_last_done.load();
}

// batch_is_last(): a trainer knows that the epoch ends with this batch.
PyObject* batch_is_last(PyObject*, PyObject* last) {
  with_training([&](Training& training, Here) {
    training.begin_turn(training.step_index(), last == Py_True);
  });
  Py_RETURN_NONE;
}

// measure_again(): what was measured of this stack's epoch is worth nothing.
PyObject* measure_again(PyObject*, PyObject*) {
  with_training([](Training& training, Here) { training.steps().measure_again(); });
  Py_RETURN_NONE;
}

// open_epoch(): (sequence, index or None) of the innermost on this stack, or None.
PyObject* open_epoch(PyObject*, PyObject*) {
  record::ThreadState* thread = record::this_thread();
  const record::Lane* stack = thread != nullptr ? current_stack(*thread) : nullptr;
  const EpochEnd epoch = stack != nullptr ? innermost_epoch(*stack) : EpochEnd{};
  if (epoch.sequence == 0) Py_RETURN_NONE;
  const Ref index(number_or_none(epoch.index));
  return index ? Py_BuildValue("KO", static_cast<unsigned long long>(epoch.sequence), index.get())
               : nullptr;
}

PyObject* this_stack(PyObject*, PyObject*) {
  std::uint64_t token = 0;
  with_training([&](Training&, Here here) { token = stack_token(here.stack); });
  return PyLong_FromUnsignedLongLong(token);
}

PyMethodDef g_functions[] = {
    {"watch_epochs", as_method(watch_epochs), METH_FASTCALL,
     "watch_epochs(on_epoch, on_gradients, on_trained, on_gone)\n--\n\n"
     "Who is told what snapshots want to know; None for all ends it. See the types."},
    {"epoch_over", epoch_over, METH_NOARGS,
     "epoch_over()\n--\n\nThe epoch that is open here has ended, although its scope stays open."},
    {"end_open_epochs", end_open_epochs, METH_NOARGS,
     "end_open_epochs()\n--\n\nTells the end of every epoch that is still open."},
    {"batch_is_last", batch_is_last, METH_O,
     "batch_is_last(last)\n--\n\nWhether the epoch ends with the batch that is there."},
    {"measure_again", measure_again, METH_NOARGS,
     "measure_again()\n--\n\nThe next step of every optimizer has its gradients measured."},
    {"open_epoch", open_epoch, METH_NOARGS,
     "open_epoch()\n--\n\nSequence and index of the epoch that is open here, or None."},
    {"this_stack", this_stack, METH_NOARGS,
     "this_stack()\n--\n\nA number for the thread or task that runs, never given to another; 0: "
     "it is not recorded."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void detail::tell_epoch_ends() noexcept {
  const KeepError keep;
  g_epoch_ends_due = false;
  const std::vector<EpochEnd> due = std::move(g_due);
  g_due.clear();
  for (const EpochEnd& epoch : due) tell(epoch);
}

void epoch_closed(std::uint64_t sequence, std::int64_t index) noexcept {
  if (sequence == 0 || (!models_known() && g_none_told)) return;
  EpochEnd epoch{.sequence = sequence, .index = index};
  with_training([&](Training& training, Here here) {
    epoch.stack = stack_token(here.stack);
    if (snapshots_wanted()) epoch.steps = training.steps().counts();
    training.end_epoch();
  });
  const KeepError keep;
  tell(epoch);
}

void take_gradients(PyObject* optimizer) noexcept {
  if (g_on_gradients == nullptr) return;
  const KeepError keep;
  std::uint64_t number = 0;
  bool last = false;
  EpochEnd epoch;
  with_training([&](Training& training, Here here) {
    number = training.steps().steps(optimizer);
    last = training.steps().is_likely_last(optimizer);
    epoch = innermost_epoch(here.stack);
  });
  if (epoch.sequence == 0) return;  // they would be some other epoch's
  const Ref index(number_or_none(epoch.index));
  if (!index) return PyErr_Clear();
  const std::uint64_t begin = base::monotonic_ns();
  g_device_ns = 0;
  call(g_on_gradients, "OKKOKO", optimizer, static_cast<unsigned long long>(number),
       static_cast<unsigned long long>(epoch.sequence), index.get(),
       static_cast<unsigned long long>(epoch.stack), last ? Py_True : Py_False);
  const std::uint64_t end = base::monotonic_ns() + g_device_ns;
  with_training(
      [&](Training& training, Here) { training.steps().measured(optimizer, begin, end); });
}

void note_device_time(std::uint64_t ns) noexcept { g_device_ns += ns; }

void turn_begins(record::ThreadState& thread, record::Lane& stack, std::int64_t index,
                 bool last) noexcept {
  Training::of({thread, stack}).begin_turn(index, last);
}

void end_epochs_before_death() noexcept {
  if (!snapshots_wanted()) return;
  try {
    constexpr int kForMainMs = 300, kForAnyMs = 2000;
    if (Py_AddPendingCall(tell_last, nullptr) == 0 && await_last(kForMainMs)) return;
    // The main thread sits in a long call. A thread of its own may wait for the GIL in vain.
    std::thread([] {
      const PyGILState_STATE state = PyGILState_Ensure();
      tell_last(nullptr);
      PyGILState_Release(state);
    }).detach();
    await_last(kForAnyMs);
  } catch (...) {
    // No thread to be had: the spans are written all the same.
  }
}

bool add_boundaries(PyObject* module) { return PyModule_AddFunctions(module, g_functions) == 0; }

}  // namespace sonde::native
