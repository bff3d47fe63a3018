// Where epochs end and where their gradients are final. The code in Python that takes snapshots is
// told so.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/hook/training.h"
#include "engine/record/lane.h"
#include "engine/record/stack.h"
#include "python/native/known_models.h"
#include "python/native/python.h"
#include "python/native/stack.h"

namespace sonde::native {

// The end of an epoch, as Python is told of it.
struct EpochEnd {
  std::uint64_t sequence = 0;  // of its scope; 0: there is none
  std::int64_t index = record::kNoIndex;
  std::uint64_t stack = 0;                                   // see Boundaries::stack_token
  std::vector<std::pair<const void*, std::uint64_t>> steps;  // of each optimizer
};

// One per process. Needs the GIL, except where a method says otherwise.
class Boundaries {
 public:
  static Boundaries& instance() noexcept { return *one_; }

  // -- looked at on every step --

  // Are snapshots taken?
  static bool snapshots_wanted() noexcept { return flags_.snapshots_wanted; }
  // A number that changes whenever snapshots begin or end.
  static std::uint32_t snapshot_round() noexcept { return flags_.snapshot_round; }
  // The name of an epoch's scope while snapshots are taken; otherwise a number that no name has.
  static std::uint32_t epoch_name() noexcept { return flags_.epoch_name; }
  // Tells Python about the ends that engine/hook has noted. That runs Python code, so it may be
  // called only where no change of the training state is half done.
  static void tell_epoch_ends() noexcept {
    if (flags_.epoch_ends_due) [[unlikely]]
      instance().tell_due();
  }

  // -- the callbacks --

  // See snapshots.set_listeners in python/sonde/_core/snapshots.pyi. Both nullptr: none is called.
  void listen(PyObject* on_epoch, PyObject* on_gradients) noexcept;

  // -- what is told --

  // A scope called epoch was closed by Python code: tells Python at once. `index` may be kNoIndex.
  void epoch_closed(std::uint64_t sequence, std::int64_t index) noexcept {
    if (sequence != 0 && (!none_told_ || KnownModels::instance().any()))
      tell_closed(sequence, index);
  }
  // The innermost open epoch of this stack is over, although its scope stays open.
  void end_innermost() noexcept;
  // Tells the end of every open epoch, on all threads.
  void end_all() noexcept;
  // As end_all(), when a signal is about to end the process. Called without the GIL; waits for it
  // for a limited time, until `deadline_ns` (base::monotonic_ns) at most.
  void end_all_before_death(std::uint64_t deadline_ns) noexcept;

  // The gradients that this optimizer is about to use, or has just used, are to be measured.
  void take_gradients(PyObject* optimizer) noexcept;
  // A device measures while the host goes on; `ns` is about how long that takes.
  void note_device_time(std::uint64_t ns) noexcept { device_ns_ += ns; }

  // -- what is asked --

  // The innermost open epoch of this stack; its sequence is 0 where none is open.
  static EpochEnd innermost_epoch(const record::Lane& stack);
  // A number for a thread or a task. Unlike the number of a lane it is never used again.
  static std::uint64_t stack_token(const record::Lane& stack) noexcept {
    return record::tenancy_of(stack) << 24 | (record::number_of(stack) & 0xFFFFFF);
  }

 private:
  static constexpr std::uint32_t kNoName = 0xFFFFFFFF;
  // Together in one line of the cache, among the other data that plain steps look at.
  struct Flags {
    bool snapshots_wanted = false;
    bool epoch_ends_due = false;
    std::uint32_t snapshot_round = 0;
    std::uint32_t epoch_name = kNoName;
  };
  static constinit Flags flags_;
  static Boundaries* const one_;  // never destroyed: the drain thread may use it at exit

  static void note_end(const hook::EndedEpoch& epoch) noexcept;
  static int tell_last(void*);
  bool first_time(std::uint64_t sequence) noexcept;
  void tell(const EpochEnd& epoch) noexcept;
  void tell_closed(std::uint64_t sequence, std::int64_t index) noexcept;
  void tell_due() noexcept;
  bool await_last(std::uint64_t patience_ns, std::uint64_t deadline_ns) const;

  PyObject* on_epoch_ = nullptr;
  PyObject* on_gradients_ = nullptr;
  std::vector<EpochEnd> due_;
  // The epochs that were told last, so that an epoch that a trainer has announced is not told again
  // when its scope closes.
  std::array<std::uint64_t, 16> told_{};
  std::size_t told_at_ = 0;
  // Without a model there is nothing to capture. Python is told of one such epoch, and of no
  // others.
  bool none_told_ = false;
  // How long the device is likely to need for the gradients that are being taken.
  std::uint64_t device_ns_ = 0;
  // For end_all_before_death: runs once, on the main thread between two of its instructions, or
  // else on a thread that gets the GIL.
  std::atomic<bool> last_begun_{false}, last_done_{false};
};

// Calls `work(training, here)` with the training loop of the running thread or task, if the thread
// records.
template <typename Work>
void with_training(Work work) noexcept {
  record::ThreadState* thread = record::this_thread();
  if (thread == nullptr) return;
  record::Lane* stack = current_stack(*thread);
  if (stack == nullptr) return record::count_laneless(false);
  const hook::Here here{*thread, *stack};
  work(hook::Training::of(here), here);
  stack_changed(*thread, *stack);
  Boundaries::tell_epoch_ends();
}

}  // namespace sonde::native
