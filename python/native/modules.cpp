// Calls of modules: the outermost one is a forward.
#include "python/native/modules.h"
#include "engine/record/stack.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "engine/base/placement.h"
#include "python/native/boundaries.h"
#include "python/native/exceptions.h"
#include "python/native/gpu_watch.h"
#include "python/native/graph_watch.h"
#include "python/native/hooked_function.h"
#include "python/native/known_models.h"
#include "python/native/module.h"
#include "python/native/module_table.h"
#include "python/native/newest_batch.h"
#include "python/native/ownership.h"
#include "python/native/parameters.h"
#include "python/native/symbolic.h"
#include "python/native/torch.h"
#include "python/native/torch_use.h"

namespace sonde::native {

namespace {

using hook::Here;
using hook::Training;

constinit thread_local int t_forward_depth __attribute__((tls_model("initial-exec"))) = 0;

// The model that ran last on a stack, by the number of the stack. Stacks are reused, so there are
// few.
WeakObject& last_model(const record::Lane& stack) {
  static auto* all = new std::deque<WeakObject>;
  if (record::number_of(stack) >= all->size()) all->resize(record::number_of(stack) + 1);
  return (*all)[record::number_of(stack)];
}

// The last arguments of note_other_model, so that it need not be called again with them.
struct Noted {
  const record::Lane* stack = nullptr;
  PyObject* module = nullptr;  // compared only
  std::uint64_t learned = 0;   // `module` is valid while this count has not changed
};

struct Calls {
  Noted noted;
  std::vector<HookedFunction> hooked;
  HookedFunction first;  // mostly the only one: torch.nn.Module.__call__
};
SONDE_HOT_DATA Calls g_module_calls;
SONDE_APART void note_other_model(const record::Lane& stack, PyObject* module) {
  last_model(stack).set(module);
  g_module_calls.noted = {&stack, module, detail::g_module_counts.learned};
}

void note_last_model(const record::Lane& stack, PyObject* module) {
  if (g_module_calls.noted.module != module || g_module_calls.noted.stack != &stack ||
      g_module_calls.noted.learned != detail::g_module_counts.learned) [[unlikely]]
    note_other_model(stack, module);
}

// Recomputation of checkpointed activations on one of autograd's own threads: part of the backward
// that another thread is waiting for.
bool is_recomputation(const record::Lane& stack) {
  return record::depth_of(stack) == 0 && in_backward_thread();
}

// torch recomputes checkpointed activations only as far as is needed, and leaves the forward by an
// internal exception.
bool stops_recomputation() {
  PyObject* type = PyErr_Occurred();
  return type != nullptr && PyType_Check(type) &&
         class_name(reinterpret_cast<PyTypeObject*>(type)) == "_StopRecomputationError";
}

// -- the call --

vectorcallfunc original_of(PyObject* function) {
  for (const HookedFunction& hooked : g_module_calls.hooked) {
    if (hooked.function == function) return hooked.original;
  }
  return PyVectorcall_Function(function);
}

// Snapshots look for what is trained among these modules.
SONDE_COLD void note_now_for_snapshots(KnownModule& known, PyObject* module, bool trains) {
  known.snapshot_round = Boundaries::snapshot_round();
  known.trains = trains;
  if (Boundaries::snapshots_wanted()) KnownModels::instance().note_model(module, trains);
}

void note_for_snapshots(KnownModule& known, PyObject* module, bool trains) {
  if (known.snapshot_round != Boundaries::snapshot_round() || (trains && !known.trains))
      [[unlikely]]
    note_now_for_snapshots(known, module, trains);
}

SONDE_COLD PyObject* end_without_result(const record::ScopeHandle& scope) {
  const bool failed = !stops_recomputation();
  const std::string error = failed ? exception_members() : std::string();
  with_training([&](Training& now, Here there) { now.end_forward(there, scope, failed, error); });
  return nullptr;
}

SONDE_HOT PyObject* outermost_call(vectorcallfunc original, PyObject* function,
                                   PyObject* const* args, std::size_t flagged, PyObject* keys) {
  PyObject* module = args[0];
  record::ThreadState* thread = record::this_thread();
  record::Lane* stack = thread != nullptr ? current_stack(*thread) : nullptr;
  if (stack == nullptr || Symbolic::is_call(args, flagged, keys))
    return original(function, args, flagged, keys);
  KnownModule& known = known_module(module);
  if (!known.has_parameters || is_recomputation(*stack))
    return original(function, args, flagged, keys);
  look_for_gpu();
  TorchUse::note();
  const bool in_training = in_training_mode(module);
  const hook::Forward forward{.gradients = gradients_on(),
                              .training = in_training,
                              .owned = known.owned,
                              .attrs = in_training ? known.train_attrs : known.eval_attrs,
                              .module = module};
  note_for_snapshots(known, module, in_training && forward.gradients);
  if (forward.owned != hook::Owned::kNo) note_last_model(*stack, module);
  const Here here{*thread, *stack};
  Training& training = Training::of(here);
  NewestBatches::use(training, args + 1, PyVectorcall_NARGS(flagged) - 1 + keyword_count(keys));
  const record::ScopeHandle scope = training.begin_forward(here, forward);
  stack_changed(*thread, *stack);
  Boundaries::tell_epoch_ends();
  t_forward_depth = 1;
  PyObject* result = original(function, args, flagged, keys);
  t_forward_depth = 0;
  if (result == nullptr) [[unlikely]]
    return end_without_result(scope);
  with_training([&](Training& now, Here there) {
    if (now.end_forward(there, scope, false)) [[unlikely]]
      watch_graph(now, scope.sequence, result);
  });
  return result;
}

SONDE_HOT PyObject* call_module(PyObject* function, PyObject* const* args, std::size_t flagged,
                                PyObject* keys) {
  const vectorcallfunc original = function == g_module_calls.first.function
                                      ? g_module_calls.first.original
                                      : original_of(function);
  if (t_forward_depth != 0 || PyVectorcall_NARGS(flagged) < 1)
    return original(function, args, flagged, keys);
  return outermost_call(original, function, args, flagged, keys);
}

// hook_module_call(function): calls of this function object are forwards from now on.
PyObject* hook_module_call(PyObject*, PyObject* function) {
  if (!PyFunction_Check(function)) {
    PyErr_SetString(PyExc_TypeError, "a Python function is needed");
    return nullptr;
  }
  for (const HookedFunction& hooked : g_module_calls.hooked) {
    if (hooked.function == function) Py_RETURN_FALSE;
  }
  g_module_calls.hooked.emplace_back().hook(function, call_module);
  g_module_calls.first = g_module_calls.hooked.front();
  Py_RETURN_TRUE;
}

PyObject* unhook_module_calls(PyObject*, PyObject*) {
  for (HookedFunction& hooked : g_module_calls.hooked) hooked.unhook(call_module);
  g_module_calls.hooked.clear();
  Py_RETURN_NONE;
}

// For the time in which a model is being built.
PyObject* begin_quiet_forwards(PyObject*, PyObject*) {
  ++t_forward_depth;
  Py_RETURN_NONE;
}

PyObject* end_quiet_forwards(PyObject*, PyObject*) {
  --t_forward_depth;
  Py_RETURN_NONE;
}

PyObject* all_modules(PyObject*, PyObject*) { return living_modules(); }

PyObject* know_whole_model(PyObject*, PyObject* module) {
  know_model(module);
  Py_RETURN_NONE;
}

PyMethodDef g_functions[] = {
    {"know_model", know_whole_model, METH_O,
     "know_model(module)\n--\n\nForwards of this model's parts get their names in the model, "
     "even if it is never called."},
    {"hook_module_call", hook_module_call, METH_O,
     "hook_module_call(function)\n--\n\nCalls of this function object are forwards from now on; "
     "false if they were before."},
    {"unhook_module_calls", unhook_module_calls, METH_NOARGS,
     "unhook_module_calls()\n--\n\nEverything hook_module_call did is undone."},
    {"begin_quiet_forwards", begin_quiet_forwards, METH_NOARGS,
     "begin_quiet_forwards()\n--\n\nCalls of modules on this thread are no forwards until "
     "end_quiet_forwards. Calls nest."},
    {"end_quiet_forwards", end_quiet_forwards, METH_NOARGS,
     "end_quiet_forwards()\n--\n\nEnds what begin_quiet_forwards began."},
    {"living_modules", all_modules, METH_NOARGS,
     "living_modules()\n--\n\nEvery torch module of the process."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool last_model_evaluates(const record::Lane& stack) noexcept {
  const Ref module = last_model(stack).get();
  return module && !in_training_mode(module.get());
}

bool add_modules(PyObject* torch) {
  return add_graph_watch() && PyModule_AddFunctions(torch, g_functions) == 0;
}

}  // namespace sonde::native
