// Several batches were fetched before any was used. Either they are fetched ahead, and the oldest
// is used first, or all but the newest were skipped (a run that is resumed in the middle of an
// epoch). A program that skips hands the newest batch to its model, which tells the two apart.
#pragma once

#include <vector>

#include "engine/hook/training.h"
#include "python/native/python.h"

namespace sonde::native {

// One batch for each training loop, so that a loader that another thread reads changes nothing
// here. One object per process. Needs the GIL.
class NewestBatches {
 public:
  // Is any batch kept? Looked at on every step.
  static bool any() noexcept { return any_; }

  // To be called when a batch is fetched while earlier batches of its pass are unused. It is kept
  // alive until a model runs with it, until its pass ends, or until its training loop fetches
  // something with gradients on: other models, and validations, may run before that.
  SONDE_COLD static void keep(hook::Pass& pass, PyObject* batch) noexcept;
  // This pass fetches with gradients on.
  SONDE_COLD static void drop_before(const hook::Pass& fetching) noexcept;
  // This pass ends.
  SONDE_COLD static void drop_of(const hook::Pass& pass) noexcept;

  // A model, or a compiled function that trains, is about to run with these arguments.
  static void use(hook::Training& training, PyObject* const* args, Py_ssize_t count) noexcept {
    if (any_) [[unlikely]]
      compare(training, args, count);
  }

 private:
  struct Kept {
    hook::Pass* pass;  // the pass that the batch was fetched in
    Ref batch;
  };

  SONDE_COLD static void compare(hook::Training& training, PyObject* const* args,
                                 Py_ssize_t count) noexcept;
  template <typename Goes>
  static void drop(Goes goes) noexcept;

  static constinit bool any_;  // among the other data that plain steps look at
  static std::vector<Kept>& kept() noexcept;
};

}  // namespace sonde::native
