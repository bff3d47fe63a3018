// Which stack of open scopes the running code belongs to: its thread's, or, inside asyncio, its
// task's.
#pragma once

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

// Never nullptr for a thread that has a lane; nullptr when a task can get no stack of its own,
// which record::count_laneless then has to count.
inline record::Lane* current_stack(record::ThreadState& thread) noexcept {
  // A task always runs in a context; plain code of a thread mostly has none.
  const PyThreadState* state = current_thread_state();
  if (state->context == nullptr || (state->context == detail::t_plain.context &&
                                    state->context_ver == detail::t_plain.version)) [[likely]]
    return thread.lane;
  return detail::task_stack(thread);
}

// After a scope was opened or closed on a task's stack: tasks made from here on inherit the right
// parent.
inline void stack_changed(record::ThreadState& thread, record::Lane& stack) noexcept {
  if (&stack != thread.lane) [[unlikely]]
    detail::note_task_stack(stack);
}

}  // namespace sonde::native
