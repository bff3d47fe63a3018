// The step of a torch optimizer, from torch's hook before it to the hook after it or to an
// exception.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/placement.h"
#include "python/native/boundaries.h"
#include "python/native/callbacks.h"
#include "python/native/exceptions.h"
#include "python/native/module.h"
#include "python/native/optimizer_classes.h"
#include "python/native/ownership.h"
#include "python/native/torch.h"
#include "python/native/torch_use.h"

namespace sonde::native {

namespace {

using hook::Here;
using hook::Training;

// A step under way. torch's hook after a step is not called when the step raises, but the dict of
// its keyword arguments is freed with the frame that runs the step. While the step runs, that dict
// has a type of ours (g_guard_type), whose deallocator ends the span.
//
// The simpler way is to leave the span of a step that has raised open until the next event of a
// hook closes it. It was tried and rejected. What the program does after the exception, its own
// scopes as well as further forwards, then lies inside the span of the step. Nor is it cheaper:
// the code in this file takes 282 instructions per step with the guard and took 287 without
// (callgrind on bench/hooks.py nothing); wall-clock times did not differ.
struct GuardedStep {
  PyObject* keywords;  // compared only
  std::uint64_t serial;
  bool takes_gradients;  // at its end: they are made, or unscaled, inside the step
};

struct Optimizers {
  std::vector<GuardedStep> steps;  // under way
};
SONDE_HOT_DATA Optimizers g_optimizers;

// Makes it a plain dict again.
SONDE_HOT GuardedStep release(PyObject* keywords) {
  Py_SET_TYPE(keywords, &PyDict_Type);
  for (std::size_t i = g_optimizers.steps.size(); i-- > 0;) {
    const GuardedStep step = g_optimizers.steps[i];
    if (step.keywords != keywords) continue;
    g_optimizers.steps.erase(g_optimizers.steps.begin() + static_cast<std::ptrdiff_t>(i));
    return step;
  }
  return {};
}

SONDE_COLD void end_with_error(const GuardedStep& step) {
  const std::string error = exception_members();
  with_training([&](Training& training, Here here) {
    training.end_optimizer(here, step.serial, false, error);
  });
}

SONDE_HOT void end_step(const GuardedStep& step, bool completed) {
  if (step.serial == 0) return;
  if (!completed) [[unlikely]]
    return end_with_error(step);
  with_training(
      [&](Training& training, Here here) { training.end_optimizer(here, step.serial, true); });
}

void guard_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);  // what follows may collect garbage
  end_step(release(self), false);
  PyDict_Type.tp_dealloc(self);
}

// Copies and pickles are plain dicts.
PyObject* guard_reduce(PyObject* self, PyObject*) {
  const Ref items(PyDict_Copy(self));
  return items ? Py_BuildValue("O(O)", &PyDict_Type, items.get()) : nullptr;
}

PyMethodDef g_guard_methods[] = {
    {"__reduce__", guard_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject g_guard_type = [] {
  // Garbage collection is inherited from dict.
  PyTypeObject type = make_type("sonde._core.step_arguments", sizeof(PyDictObject), guard_dealloc,
                                Py_TPFLAGS_DEFAULT);
  type.tp_methods = g_guard_methods;
  return type;
}();

// Does only the frame of the step hold the dict? The call of the hook holds a second reference.
bool is_only_the_steps(PyObject* keywords) {
  return PyDict_CheckExact(keywords) && Py_REFCNT(keywords) == 2;
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
SONDE_COLD void begin_measured(GuardedStep& step, PyObject* optimizer, std::uint32_t attrs) {
  with_training([&](Training& training, Here here) { training.expect_optimizer(here, optimizer); });
  step.takes_gradients = unscales_itself(optimizer);
  if (!step.takes_gradients)
    Boundaries::instance().take_gradients(optimizer);  // before the span begins
  with_training([&](Training& training, Here here) {
    step.serial = training.begin_optimizer(here, optimizer, false, attrs);
  });
}

// begin_optimizer(optimizer, args, kwargs): torch's global pre-hook. It may return other args and
// kwargs.
SONDE_HOT PyObject* begin_optimizer(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!hooks_in_place() || count != 3 || !PyTuple_Check(args[1]) || !PyDict_Check(args[2]))
    Py_RETURN_NONE;
  TorchUse::note();
  const bool closure = PyTuple_GET_SIZE(args[1]) > 1 || PyDict_GET_SIZE(args[2]) > 0;
  // A dict that something else holds would outlive the step. A copy is guarded instead.
  Ref exchanged;
  if (!is_only_the_steps(args[2])) [[unlikely]] {
    exchanged = Ref(PyDict_Copy(args[2]));
    if (!exchanged) return PyErr_Clear(), Py_NewRef(Py_None);
  }
  PyObject* keywords = exchanged ? exchanged.get() : args[2];
  GuardedStep step{.keywords = keywords, .serial = 0, .takes_gradients = false};
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
  if (step.serial == 0) Py_RETURN_NONE;
  g_optimizers.steps.push_back(step);
  Py_SET_TYPE(keywords, &g_guard_type);
  if (exchanged) return PyTuple_Pack(2, args[1], keywords);
  Py_RETURN_NONE;
}

SONDE_HOT PyObject* end_optimizer(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3 || Py_TYPE(args[2]) != &g_guard_type) Py_RETURN_NONE;
  const GuardedStep step = release(args[2]);
  end_step(step, true);
  if (step.takes_gradients) [[unlikely]]
    Boundaries::instance().take_gradients(args[0]);
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"begin_optimizer", as_method(begin_optimizer), METH_FASTCALL,
     "begin_optimizer(optimizer, args, kwargs)\n--\n\ntorch's global optimizer hook before a "
     "step."},
    {"end_optimizer", as_method(end_optimizer), METH_FASTCALL,
     "end_optimizer(optimizer, args, kwargs)\n--\n\ntorch's global optimizer hook after a step."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_optimizers(PyObject* torch) {
  g_guard_type.tp_base = &PyDict_Type;
  return PyType_Ready(&g_guard_type) == 0 && PyModule_AddFunctions(torch, g_functions) == 0;
}

}  // namespace sonde::native
