// Several batches were fetched before any was used. Either they are fetched ahead, and the oldest
// is used first, or all but the newest were skipped (a run that is resumed in the middle of an
// epoch). A program that skips hands the newest batch to its model, which tells the two apart.
#pragma once

#include "engine/hook/training.h"
#include "python/native/python.h"

namespace sonde::native {

namespace detail {
struct NewestBatch {
  PyObject* batch = nullptr;   // nullptr: none is kept
  hook::Pass* pass = nullptr;  // the pass that it was fetched in
};
extern constinit NewestBatch g_newest;
SONDE_COLD void compare_with_newest(hook::Training& training, PyObject* const* args,
                                    Py_ssize_t count) noexcept;
}  // namespace detail

// To be called when a batch is fetched while earlier batches of its pass are unused. It is kept
// alive until a model runs with it, until its pass ends, or until something is fetched with
// gradients on: other models, and validations, may run before that.
SONDE_COLD void keep_newest_batch(hook::Pass& pass, PyObject* batch) noexcept;
SONDE_COLD void drop_newest_batch() noexcept;
inline bool keeps_newest_batch() noexcept { return detail::g_newest.batch != nullptr; }
inline bool keeps_newest_batch(const hook::Pass& pass) noexcept {
  return keeps_newest_batch() && detail::g_newest.pass == &pass;
}

// A model, or a compiled function that trains, is about to run with these arguments.
inline void use_batch(hook::Training& training, PyObject* const* args, Py_ssize_t count) noexcept {
  if (detail::g_newest.batch != nullptr) [[unlikely]]
    detail::compare_with_newest(training, args, count);
}

}  // namespace sonde::native
