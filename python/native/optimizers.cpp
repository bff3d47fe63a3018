// The step of a torch optimizer, from torch's hook before it to the hook after it or to an
// exception.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/placement.h"
#include "python/native/boundaries.h"
#include "python/native/callbacks.h"
#include "python/native/exceptions.h"
#include "python/native/hooked_function.h"
#include "python/native/module.h"
#include "python/native/optimizer_classes.h"
#include "python/native/ownership.h"
#include "python/native/torch.h"
#include "python/native/torch_use.h"

namespace sonde::native {

namespace {

using hook::Here;
using hook::Training;

// A step under way, from torch's hook before it. torch does not call its hook after a step if the
// step raises. But it runs each step inside `with record_function("Optimizer.step#...")`, whose
// __exit__ is called at once, with the exception. The interpreter makes that call through the
// vectorcall of the function object, which is replaced (leave_block). A `with` block that ends
// without an exception calls the function from bytecode, past the vectorcall or at the cost of one
// more call.
//
// Two other ways were tried. A dict of keyword arguments with a deallocator of ours ends with the
// frame that runs the step: but the traceback holds the frame while the exception is handled, and
// for as long as the program keeps it. Leaving the span open until the next event of a hook puts
// into the span of the step all that the program does until then.
struct RunningStep {
  PyObject* optimizer;          // compared only
  const PyThreadState* thread;  // compared only
  std::uint64_t serial;
  bool takes_gradients;  // at its end: they are made, or unscaled, inside the step
};

SONDE_HOT_DATA std::vector<RunningStep> g_steps;  // on all threads; inner ones after outer ones
HookedFunction g_block_exit;                      // record_function.__exit__

// Takes the innermost step of this thread out, or that of the optimizer. What began inside it has
// ended unseen. Its serial is 0 if there is none.
SONDE_HOT RunningStep take_step(PyObject* optimizer = nullptr) {
  const PyThreadState* thread = current_thread_state();
  for (std::size_t i = g_steps.size(); i-- > 0;) {
    const RunningStep step = g_steps[i];
    if (step.thread != thread || (optimizer != nullptr && step.optimizer != optimizer)) continue;
    if (i + 1 == g_steps.size()) [[likely]]
      g_steps.pop_back();
    else
      g_steps.erase(std::remove_if(g_steps.begin() + static_cast<std::ptrdiff_t>(i), g_steps.end(),
                                   [&](const RunningStep& one) { return one.thread == thread; }),
                    g_steps.end());
    return step;
  }
  return {};
}

// A step may be inside another one. It may also have ended unseen, where __exit__ is not torch's.
SONDE_COLD void drop_ended_steps() {
  with_training([](Training& training, Here) {
    std::erase_if(g_steps, [&](const RunningStep& step) {
      return step.thread == current_thread_state() && !training.runs_optimizer(step.serial);
    });
  });
}

SONDE_COLD void end_with_error(const RunningStep& step, PyObject* exception) {
  if (step.serial == 0) return;
  const std::string error = exception_text(exception).members();
  with_training([&](Training& training, Here here) {
    training.end_optimizer(here, step.serial, false, error);
  });
}

// Is this the record_function around the step of an optimizer?
bool is_around_step(PyObject* block) {
  const KeepError keep;
  const Ref name(PyObject_GetAttr(block, torch_names().name));
  bool found = false;
  if (name && PyUnicode_Check(name.get()))
    with_utf8(name.get(),
              [&](std::string_view text) { found = text.starts_with("Optimizer.step#"); });
  PyErr_Clear();
  return found;
}

SONDE_COLD void end_raised(PyObject* block, PyObject* exception) {
  if (is_around_step(block)) end_with_error(take_step(), exception);
}

// record_function.__exit__(self, type, exception, traceback)
PyObject* leave_block(PyObject* function, PyObject* const* args, std::size_t flagged,
                      PyObject* keys) {
  if (!g_steps.empty() && PyVectorcall_NARGS(flagged) == 4 && args[2] != Py_None) [[unlikely]]
    end_raised(args[0], args[2]);
  return g_block_exit.original(function, args, flagged, keys);
}

// A fused optimizer unscales the gradients of mixed precision itself. GradScaler sets the scale on
// it during the step.
bool unscales_itself(PyObject* optimizer) {
  const KeepError keep;
  const Ref scale(PyObject_GetAttr(optimizer, torch_names().grad_scale));
  if (!scale) drop_error();
  return scale && scale.get() != Py_None;
}

// The gradients of this step are to be measured.
SONDE_COLD void begin_measured(RunningStep& step, PyObject* optimizer, std::uint32_t attrs) {
  with_training([&](Training& training, Here here) { training.expect_optimizer(here, optimizer); });
  step.takes_gradients = unscales_itself(optimizer);
  if (!step.takes_gradients)
    Boundaries::instance().take_gradients(optimizer);  // before the span begins
  with_training([&](Training& training, Here here) {
    step.serial = training.begin_optimizer(here, optimizer, false, attrs);
  });
}

// begin_optimizer(optimizer, args, kwargs): torch's global pre-hook.
SONDE_HOT PyObject* begin_optimizer(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!hooks_in_place() || count != 3 || !PyTuple_Check(args[1]) || !PyDict_Check(args[2]))
    Py_RETURN_NONE;
  TorchUse::note();
  if (!g_steps.empty()) [[unlikely]]
    drop_ended_steps();
  const bool closure = PyTuple_GET_SIZE(args[1]) > 1 || PyDict_GET_SIZE(args[2]) > 0;
  RunningStep step{.optimizer = args[0],
                   .thread = current_thread_state(),
                   .serial = 0,
                   .takes_gradients = false};
  Ownership::note_optimizer(args[0]);
  const std::uint32_t attrs = OptimizerClasses::attrs_of(Py_TYPE(args[0]));
  bool last = false;
  with_training([&](Training& training, Here here) {
    if (closure) {
      step.serial = training.begin_optimizer(here, args[0], true, attrs);
      step.takes_gradients = Boundaries::snapshots_wanted() && training.measures_begun(args[0]);
      return;
    }
    last = Boundaries::snapshots_wanted() && training.measures_step(args[0]);
    if (!last) [[likely]]
      step.serial = training.begin_optimizer(here, args[0], false, attrs);
  });
  if (last) [[unlikely]]
    begin_measured(step, args[0], attrs);
  if (step.serial != 0) g_steps.push_back(step);
  Py_RETURN_NONE;
}

SONDE_HOT PyObject* end_optimizer(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3 || g_steps.empty()) Py_RETURN_NONE;
  const RunningStep step = take_step(args[0]);
  if (step.serial == 0) Py_RETURN_NONE;
  with_training(
      [&](Training& training, Here here) { training.end_optimizer(here, step.serial, true); });
  if (step.takes_gradients) [[unlikely]]
    Boundaries::instance().take_gradients(args[0]);
  Py_RETURN_NONE;
}

// end_failed_optimizer(optimizer, exception): the step of an optimizer that is not torch's own.
PyObject* end_failed_optimizer(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count == 2) end_with_error(take_step(args[0]), args[1]);
  Py_RETURN_NONE;
}

// hook_block_exit(function): record_function.__exit__, which tells of steps that raise. If another
// tool has replaced it by something else, such a step ends at the next event of a hook.
PyObject* hook_block_exit(PyObject*, PyObject* function) {
  if (PyFunction_Check(function) && g_block_exit.function == nullptr)
    g_block_exit.hook(function, leave_block);
  Py_RETURN_NONE;
}

PyObject* unhook_block_exit(PyObject*, PyObject*) {
  if (g_block_exit.function != nullptr) g_block_exit.unhook(leave_block);
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"begin_optimizer", as_method(begin_optimizer), METH_FASTCALL,
     "begin_optimizer(optimizer, args, kwargs)\n--\n\ntorch's global optimizer hook before a "
     "step."},
    {"end_optimizer", as_method(end_optimizer), METH_FASTCALL,
     "end_optimizer(optimizer, args, kwargs)\n--\n\ntorch's global optimizer hook after a step."},
    {"end_failed_optimizer", as_method(end_failed_optimizer), METH_FASTCALL,
     "end_failed_optimizer(optimizer, exception)\n--\n\nIn place of end_optimizer, for a step that "
     "is not torch's own."},
    {"hook_block_exit", hook_block_exit, METH_O,
     "hook_block_exit(function)\n--\n\nrecord_function.__exit__ tells of steps that raise."},
    {"unhook_block_exit", unhook_block_exit, METH_NOARGS,
     "unhook_block_exit()\n--\n\nWhat hook_block_exit did is undone."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_optimizers(PyObject* torch) { return PyModule_AddFunctions(torch, g_functions) == 0; }

}  // namespace sonde::native
