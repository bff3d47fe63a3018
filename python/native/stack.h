// Which stack of open scopes the running code belongs to: that of its thread, or inside asyncio
// that of its task.
#pragma once

#include <cstdint>

#include "engine/record/lane.h"
#include "python/native/python.h"

namespace sonde::native {

namespace detail {
// The context in which this thread was last found to run plain code, not a task.
struct PlainContext {
  PyObject* context = nullptr;  // compared only
  std::uint64_t version = 0;
};
extern constinit thread_local PlainContext t_plain __attribute__((tls_model("initial-exec")));
record::Lane* task_stack(record::ThreadState& thread) noexcept;
void note_task_stack(record::Lane& stack) noexcept;
}  // namespace detail

// nullptr only where a task can get no stack; the caller then calls record::count_laneless.
inline record::Lane* current_stack(record::ThreadState& thread) noexcept {
  // A task always runs in a context. Plain code of a thread usually has none.
  const PyThreadState* state = current_thread_state();
  if (state->context == nullptr || (state->context == detail::t_plain.context &&
                                    state->context_ver == detail::t_plain.version)) [[likely]]
    return thread.lane;
  return detail::task_stack(thread);
}

// To be called after a scope was opened or closed: on the stack of a task, tasks made from now on
// inherit the right parent.
inline void stack_changed(record::ThreadState& thread, record::Lane& stack) noexcept {
  if (&stack != thread.lane) [[unlikely]]
    detail::note_task_stack(stack);
}

}  // namespace sonde::native
